#include "widgets/cluster/deepep_gain_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <ranges>
#include <span>
#include <utility>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr double kMarkRadius = 4.5;
constexpr int kLineSwatch = 24, kNearCurve = 30;
constexpr int kTagPlaces = 24;  // eight directions at three distances
constexpr double kTagSpace = 2, kDiamond = 1.6;

double distanceTo(const QRectF& rect, const QPointF& point) {
  return std::hypot(std::max({rect.left() - point.x(), 0.0, point.x() - rect.right()}),
                    std::max({rect.top() - point.y(), 0.0, point.y() - rect.bottom()}));
}

}  // namespace

void XyPlot::setSeries(std::vector<Series> series) {
  series_ = std::move(series);
  ValueRange x = least_x_, y = least_y_;
  for (const Series& s : series_)
    for (const QPointF& point : s.points) {
      if (!std::isfinite(point.x()) || !std::isfinite(point.y())) continue;
      x = {std::min(x.low, point.x()), std::max(x.high, point.x())};
      y = {std::min(y.low, point.y()), std::max(y.high, point.y())};
    }
  const double room = 0.03 * (x.high - x.low);
  x_ = {x.low - room, x.high + room};
  y_ = niceRange(y.low, y.high, false);
}

QMargins XyPlot::margins() const {
  return {axisLabelWidth(), keyBeside(y_caption_, labelsOf(series_, &Series::label), kLineSwatch).height, 12,
          axisLabelHeight()};
}

void XyPlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  paintLeftAxis(painter, yAxis(), linearTicks(y_.low, y_.high, std::max(2, plot.height() / withType(28))), y_caption_);
  paintBottomAxis(painter, xAxis(), linearTicks(x_.low, x_.high, std::max(2, plot.width() / withType(60))),
                  captionForms(x_caption_));
  if (std::isfinite(reference_)) {
    const int y = to_int(std::lround(yAxis().toPixel(reference_)));
    painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
    painter.drawLine(plot.left(), y, plot.right(), y);
    painter.drawText(QRect(plot.left() + 4, y - metrics.height() - 1, plot.width() - 4, metrics.height()),
                     Qt::AlignLeft, elidedWords(reference_label_, metrics, plot.width() - 4));
  }
  painter.setRenderHint(QPainter::Antialiasing);
  paintKey(painter, y_caption_, labelsOf(series_, &Series::label), kLineSwatch,
           [&](std::size_t i, const QRectF& place) {
             const Series& s = series_[i];
             if (s.line != Qt::NoPen) {
               painter.setPen(QPen(seriesColor(s.color, dark()), lineWidth(), s.line));
               painter.drawLine(QLineF(place.left(), place.center().y(), place.right(), place.center().y()));
             }
             paintMark(painter, place.center(), s);
           });
  painter.setRenderHint(QPainter::Antialiasing, false);
}

double XyPlot::lineWidth() const {
  return kCurveWidth * typeScale(fontMetrics());
}

void XyPlot::paintMark(QPainter& painter, const QPointF& at, const Series& series) const {
  const QColor color = seriesColor(series.color, dark());
  const double r = kMarkRadius * typeScale(fontMetrics());
  painter.setPen(QPen(color, lineWidth()));
  painter.setBrush(series.mark == Mark::ring ? Qt::NoBrush : QBrush(color));
  if (series.mark == Mark::disc || series.mark == Mark::ring) painter.drawEllipse(at, r, r);
  if (series.mark == Mark::diamond) {
    painter.setPen(QPen(palette().text().color(), 1));
    const double d = kDiamond * r;
    painter.drawPolygon(QPolygonF({at + QPointF(0, -d), at + QPointF(d, 0), at + QPointF(0, d), at + QPointF(-d, 0)}));
  }
  painter.setBrush(Qt::NoBrush);
}

void XyPlot::paintData(QPainter& painter) {
  painter.setRenderHint(QPainter::Antialiasing);
  for (const Series& s : series_) {
    if (s.line != Qt::NoPen) {
      QPolygonF line;
      for (const QPointF& point : s.points) line << place(point);
      painter.setPen(QPen(seriesColor(s.color, dark()), lineWidth(), s.line));
      painter.drawPolyline(line);
    }
    if (s.mark != Mark::none)
      for (const QPointF& point : s.points) paintMark(painter, place(point), s);
  }
  paintTags(painter);
  painter.setRenderHint(QPainter::Antialiasing, false);
}

// Puts each text at the nearest place around its point that no mark, curve or other text covers and that is nearer to
// its mark than to others; those of the last series first. The readout has the texts without such a place.
void XyPlot::paintTags(QPainter& painter) const {
  const double radius = kMarkRadius * typeScale(fontMetrics()), height = fontMetrics().capHeight() + kSpace4;
  std::vector<QRectF> marks, covered;
  const auto around = [](const QPointF& at, double r) { return QRectF(-r, -r, 2 * r, 2 * r).translated(at); };
  for (const Series& s : series_)
    for (std::size_t i = 0; i < s.points.size(); ++i) {
      const QPointF at = place(s.points[i]);
      if (s.mark != Mark::none) marks.push_back(around(at, s.mark == Mark::diamond ? kDiamond * radius : radius));
      const QLineF line(s.line == Qt::NoPen || i == 0 ? at : place(s.points[i - 1]), at);
      for (double along = 0; along < line.length(); along += radius)
        covered.push_back(around(line.pointAt(along / line.length()), 1));
    }
  covered.insert(covered.end(), marks.begin(), marks.end());
  if (std::isfinite(reference_)) covered.push_back(QRectF(plotRect().left(), yAxis().toPixel(reference_), width(), 1));
  const auto is_free = [&](const QRectF& rect, const QPointF& at) {
    return QRectF(plotRect()).contains(rect) &&
           std::ranges::none_of(covered, [&](const QRectF& other) { return other.intersects(rect); }) &&
           std::ranges::none_of(marks, [&](const QRectF& mark) {
             return !mark.contains(at) && distanceTo(rect, mark.center()) < distanceTo(rect, at) + radius;
           });
  };
  painter.setPen(palette().text().color());
  for (const Series& s : series_ | std::views::reverse)
    for (std::size_t i = 0; i < s.tags.size(); ++i) {
      const QPointF at = place(s.points[i]);
      const QSizeF size(fontMetrics().horizontalAdvance(s.tags[i]), height);
      for (int direction = 0; direction < kTagPlaces; ++direction) {
        const int ring = 2 + direction / 8;  // eight places in each
        const double angle = 2 * std::numbers::pi * (direction % 8) / 8, distance = ring * radius;
        const QPointF away(std::cos(angle), std::sin(angle));
        QRectF rect(QPointF(), size);
        rect.moveCenter(at + away * distance +
                        QPointF(std::round(away.x()) * size.width() / 2, std::round(away.y()) * height / 2));
        if (!is_free(rect, at)) continue;
        covered.push_back(rect.adjusted(-kTagSpace, -kTagSpace, kTagSpace, kTagSpace));
        painter.drawText(rect.bottomLeft() - QPointF(0, kSpace4 / 2.0), s.tags[i]);
        break;
      }
    }
}

QStringList XyPlot::readoutAt(QPoint position) const {
  QStringList lines;
  double best = kNearCurve;
  for (const Series& s : series_)
    for (std::size_t i = 0; i < s.points.size(); ++i) {
      const double distance = QLineF(place(s.points[i]), position).length();
      if (distance >= best) continue;
      best = distance;
      lines = {s.label};
      if (i < s.names.size()) lines << s.names[i];
      lines << QString("%1; %2").arg(formatValue(s.points[i].x(), 4), formatValue(s.points[i].y(), 4));
    }
  return lines;
}

namespace {

constexpr int kBetweenPointsMs = 1000;  // pause between two points of a router in training

constexpr const char* kStepTip =
    "tokens/s per GPU of a whole step with each all-to-all and each format of the routed experts; a gain has the other "
    "choice as in Time of a step";

QString ratioText(double ratio) {
  return std::isnan(ratio) ? QString("-") : QString::number(ratio, 'f', 2);
}

// With two digits, and with one.
QStringList rangeForms(const Band& range) {
  if (std::isnan(range.low)) return {QString()};
  QStringList forms;
  for (const int digits : {2, 1})
    forms << QString::number(range.low, 'f', digits) + QChar(0x2013) + QString::number(range.high, 'f', digits);
  return forms;
}

QString speedText(const StepChoices& step, int all_to_all, int mxfp8) {
  const double speed = step.tokens_per_second[all_to_all][mxfp8];
  return std::isnan(speed) ? QString("-") : formatCount(std::round(speed));
}

QString nameOf(const std::string& routing) {
  const QString name = QString::fromStdString(routing);
  if (name.startsWith("grouped:")) return name.mid(8) + " of 8 groups";
  return QString(name).replace("skewed:", "Zipf ").replace("uniform", "random").replace('_', '-');
}

}  // namespace

DeepEPGainPanel::DeepEPGainPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "DeepEP gain", Provenance::measured_elsewhere, parent) {
  showAnswers();
  shape_ = makeChoice({QStringLiteral("671B"), QStringLiteral("16B")}, "Shape of the layer");
  axis_ = makeChoice({"whole step", "by copies per token", "by imbalance", "time by imbalance"}, "Axes",
                     "whole step: modelled, for the cluster of Time of a step; the others: one layer in one node of 8 "
                     "H200s, measured");
  addControl(shape_);
  addControl(axis_);
  plot_ = new XyPlot(this);
  plot_->refill = [this] { refill(); };
  followSelection(plot_);
  for (QComboBox* box : {shape_, axis_}) connect(box, &QComboBox::currentIndexChanged, plot_, &PlotFrame::markDirty);
  pause_.setSingleShot(true);
  pause_.setInterval(kBetweenPointsMs);
  connect(&pause_, &QTimer::timeout, plot_, &PlotFrame::markDirty);
  steps_table_ = new FigureTable({"\u00d7, tokens/s per GPU", "EP 8", "EP 16", "EP 32", "EP 64", "EP 128"}, this);
  steps_table_->setAccessibleName(title());
  views_ = new QStackedWidget(this);
  views_->addWidget(steps_table_);
  views_->addWidget(plot_);
  addBody(views_);
  connect(axis_, &QComboBox::currentIndexChanged, this, &DeepEPGainPanel::showView);
  showView();
}

void DeepEPGainPanel::showView() {
  shape_->setEnabled(axes() != whole_step);
  views_->setCurrentWidget(axes() == whole_step && !runs_.front().steps.empty() ? static_cast<QWidget*>(steps_table_)
                                                                                : plot_);
  plot_->markDirty();
  update();  // repaints header and answer as well
}

void DeepEPGainPanel::setSteps(std::vector<RunChoices> runs, const ClusterQuestion& cluster) {
  runs_ = std::move(runs);
  ep_ = cluster.ep;
  routing_ = cluster.routing;
  if (!runs_.front().steps.empty()) {
    fillSteps();
    refill();  // the measured gains stand in the answer
  }
  showView();
}

// What each choice gains for the load of each run, and for a single run the speeds of all choices.
void DeepEPGainPanel::fillSteps() {
  steps_table_->setRowCount(0);
  steps_table_->horizontalHeaderItem(0)->setText(runs_.size() == 1 ? "\u00d7, tokens/s per GPU" : "\u00d7");
  for (const RunChoices& run : runs_) {
    const QString begin = run.letter.isEmpty() ? run.letter : run.letter + ": ", end = ", \u00d7";
    const bool has_mxfp8 = !std::isnan(run.steps.front().mxfp8.ratio);
    addRow(run, begin + "gain by DeepEP" + end,
           [](const StepChoices& step) { return QStringList{ratioText(step.deep_ep.ratio)}; });
    addRow(run, "  range", [](const StepChoices& step) { return rangeForms(step.deep_ep.range); });
    addRow(run, begin + "gain by MXFP8" + (has_mxfp8 ? end : QString(": not on this GPU")),
           [](const StepChoices& step) { return QStringList{ratioText(step.mxfp8.ratio)}; });
    addRow(run, "  range", [](const StepChoices& step) { return rangeForms(step.mxfp8.range); });
  }
  static constexpr const char* kChoices[] = {"standard, BF16", "standard, MXFP8", "DeepEP, BF16", "DeepEP, MXFP8"};
  for (int choice = 0; runs_.size() == 1 && choice < 4; ++choice)
    addRow(runs_.front(), kChoices[choice],
           [choice](const StepChoices& step) { return QStringList{speedText(step, choice / 2, choice % 2)}; });
}

void DeepEPGainPanel::addRow(const RunChoices& run, const QString& name, auto forms_at) {
  const int row = steps_table_->rowCount();
  steps_table_->setRowCount(row + 1);
  steps_table_->setName(row, name, kStepTip, name.contains("gain"));
  for (int column = 1; column <= std::ssize(run.steps); ++column) {
    const StepChoices& step = run.steps[column - 1];
    steps_table_->horizontalHeaderItem(column)->setFont(typeFont(Type::caption, step.ep == ep_));
    // The gain by DeepEP with forced balance is not that of a router.
    const bool is_known = row > 1 || routing_ != AskedRouting::forced;
    steps_table_->setFigure(row, column, forms_at(step), {}, step.ep == ep_ && is_known);
  }
}

std::optional<Provenance> DeepEPGainPanel::kind() const {
  return axes() == whole_step ? Provenance::modelled : Provenance::measured_elsewhere;
}

void DeepEPGainPanel::refill() {
  const auto& runs = selection_->histories();
  Question question{shape_->currentText().toStdString(), {}};
  for (int place = 0; place < std::ssize(runs); ++place) {
    const HistoryPtr& history = runs[place];
    const auto frame = selection_->frameOf(place);
    const RouterFrame* router = find_router(frame.get(), selection_->layer());
    // With forced balance the run's routing is the first measured one, and its load says nothing about a router. With a
    // limit on groups the load does not say how many copies a token has.
    const auto settings = router ? history->settings_at(frame->step) : nullptr;
    const bool is_routed = settings && !settings->holds(&RouterConfig::force_balance) &&
                           settings->value(&RouterConfig::n_limited_groups).value_or(0) == 0;
    question.loads.push_back(is_routed ? router->tokens_per_expert : decltype(router->tokens_per_expert){});
  }
  const History* first = runs.empty() ? nullptr : runs.front().get();
  const bool is_other = std::exchange(run_, first) != first;
  if (answer_ && (is_other || answer_->live.size() != runs.size())) answer_->live.clear();
  if (answer_ && answer_->model != question.model) answer_.reset();
  if (question != question_ && !computing_ && (question.model != question_.model || !pause_.isActive())) {
    question_ = question;
    ask();
  }
  setProperty("busy", computing_ || question != question_);
  if (!answer_ || axes() == whole_step) return plot_->setNotice("Computing...");
  plot_->setNotice({});
  draw();
}

// Computes one answer at a time. The curves do not depend on the loads and are kept; the point of a load takes a
// seventh of the time of the curves.
void DeepEPGainPanel::ask() {
  computing_ = true;
  pause_.start();
  const bool known = answer_ && answer_->model == question_.model;
  const auto gains = [question = question_, gains = known ? answer_->gains : LayerGains{}, known](const auto&) {
    Answer answer{question.model, known ? gains : layer_gains(question.model), {}};
    for (const auto& load : question.loads)
      answer.live.push_back(load.empty() ? std::nullopt : std::optional(layer_gain_of_load(question.model, load)));
    return answer;
  };
  worker_.compute(this, gains, [this](const Answer& answer) {
    answer_ = answer;
    computing_ = false;
    update();            // repaints the answer
    plot_->markDirty();  // asks again if the load has changed and the plot is visible
  });
}

// Returns the point of the selected run; nullptr if it has none.
const LayerGain* DeepEPGainPanel::selectedGain() const {
  const auto run = static_cast<std::size_t>(selection_->run());
  return answer_ && run < answer_->live.size() && answer_->live[run] ? &*answer_->live[run] : nullptr;
}

void DeepEPGainPanel::draw() {
  const bool by_copies = axes() == Axes::by_copies, is_time = axes() == time;
  const auto modelled = [is_time](const LayerGain& g) { return is_time ? g.modelled_ms : g.modelled; };
  const auto x = [by_copies](const LayerGain& g) { return by_copies ? g.copies : g.rank_max_over_mean; };
  XyPlot::Series measured{"measured, 8 H200s", 0, XyPlot::Mark::disc, Qt::NoPen, {}};
  XyPlot::Series predicted{"model", 1, XyPlot::Mark::ring, Qt::NoPen, {}};
  XyPlot::Series curve{
      by_copies ? "model, 1 to 8 groups" : "model, Zipf loads", 1, XyPlot::Mark::none, Qt::DashLine, {}};
  XyPlot::Series live{"router of a run", 3, XyPlot::Mark::diamond, Qt::NoPen, {}};
  for (const LayerGain& g : answer_->gains.measured) {
    measured.points.emplace_back(x(g), is_time ? g.measured_ms : g.measured);
    measured.names.push_back(QString("%1, %2 ms").arg(nameOf(g.name), formatValue(g.measured_ms, 3)));
    measured.tags.push_back(nameOf(g.name));
    predicted.points.emplace_back(x(g), modelled(g));
    predicted.names.push_back(nameOf(g.name));
  }
  for (const LayerGain& g : by_copies ? answer_->gains.by_groups : answer_->gains.by_skew) {
    curve.points.emplace_back(x(g), modelled(g));
    curve.names.push_back(QString::fromStdString(g.name));
  }
  for (std::size_t run = 0; run < answer_->live.size(); ++run) {
    if (!answer_->live[run]) continue;
    live.points.emplace_back(x(*answer_->live[run]), modelled(*answer_->live[run]));
    live.names.push_back(runLabel(*selection_, to_int(run)));
    live.tags.push_back(runLetter(*selection_, to_int(run)));
  }
  plot_->setCaptions(by_copies ? QString("copies per token") : QString("fullest rank / mean"),
                     is_time ? "layer time with DeepEP, ms" : "layer time, standard / DeepEP");
  plot_->setAtLeastShown({1, by_copies ? 2.0 : 1.1}, is_time ? ValueRange{0, 1} : ValueRange{0.98, 1.3});
  plot_->setReference(is_time ? kNoValue : 1, "no gain");
  plot_->setSeries({predicted, curve, live, measured});  // a disc is smaller than a diamond and lies over it
}

QString DeepEPGainPanel::gainText(double figure) const {
  return axes() == time ? formatValue(figure, 3) + " ms" : ratioText(figure) + QStringLiteral(" \u00d7");
}

// "1.06 to 1.25 \u00d7": smallest and largest measured figure.
QString DeepEPGainPanel::measuredRange() const {
  const auto measured = axes() == time ? &LayerGain::measured_ms : &LayerGain::measured;
  const auto [smallest, largest] = std::ranges::minmax(answer_->gains.measured, {}, measured);
  return gainText(smallest.*measured).section(' ', 0, 0) + " to " + gainText(largest.*measured);
}

QStringList DeepEPGainPanel::measuredForms() const {
  if (!answer_ || answer_->gains.measured.empty()) return {};
  const QString range = "Measured layer, EP 8 in one node: " + measuredRange();
  if (!selectedGain()) return {range};
  const bool several = selection_->histories().size() > 1;
  const QString router = several ? "router " + runLetter(*selection_, selection_->run()) : QString("this router");
  const double modelled = axes() == time ? selectedGain()->modelled_ms : selectedGain()->modelled;
  return {range + QString("; modelled with %1: ").arg(router) + gainText(modelled), range};
}

// The modelled step, and the measured layer, which has no network and no tensor parallelism.
Panel::Answer DeepEPGainPanel::answer() const {
  const std::vector<StepChoices>& steps = runs_.front().steps;
  const auto step = std::ranges::find(steps, ep_, &StepChoices::ep);
  if (axes() != whole_step || step == steps.end()) return {{}, measuredForms()};
  const bool is_forced = routing_ == AskedRouting::forced, several = selection_->histories().size() > 1;
  const QString run = several && !is_forced ? " of " + runLetter(*selection_, selection_->run()) : QString();
  const QString gain =
      QString("Modelled step%1, EP %2%3: ").arg(run).arg(ep_).arg(is_forced ? ", forced balance" : "") +
      gainText(step->deep_ep.ratio);
  if (!answer_ || answer_->gains.measured.empty()) return {{}, {gain}};
  return {{},
          {gain + "; a layer measured on 8 H200s, no network, no TP: " + measuredRange(),
           gain + "; measured layer, no network, no TP: " + measuredRange(), gain}};
}

ValueTable DeepEPGainPanel::stepsTable() const {
  ValueTable table({"run", "EP", "standard, BF16 [tokens/s/GPU]", "standard, MXFP8 [tokens/s/GPU]",
                    "DeepEP, BF16 [tokens/s/GPU]", "DeepEP, MXFP8 [tokens/s/GPU]", "gain by DeepEP:3",
                    "gain by DeepEP, low:3", "gain by DeepEP, high:3", "gain by MXFP8:3", "gain by MXFP8, low:3",
                    "gain by MXFP8, high:3"});
  for (const RunChoices& run : runs_)
    for (const StepChoices& step : run.steps) {
      const auto& speeds = step.tokens_per_second;
      table.add(run.letter.toStdString(), step.ep, speeds[0][0], unless_nan(speeds[0][1]), speeds[1][0],
                unless_nan(speeds[1][1]), step.deep_ep.ratio, step.deep_ep.range.low, step.deep_ep.range.high,
                unless_nan(step.mxfp8.ratio), unless_nan(step.mxfp8.range.low), unless_nan(step.mxfp8.range.high));
    }
  return table;
}

ValueTable DeepEPGainPanel::table() const {
  if (axes() == whole_step) return stepsTable();
  ValueTable table({"kind", "routing", "copies per token:3", "fullest rank / mean:3",
                    "measured elsewhere, standard / DeepEP:3", "modelled, standard / DeepEP:3",
                    "measured elsewhere, DeepEP layer [ms]:3", "modelled, DeepEP layer [ms]:3",
                    "measured elsewhere, standard layer [ms]:3", "measured elsewhere, standard communication [ms]:3",
                    "measured elsewhere, DeepEP communication [ms]:3"});
  if (!answer_) return table;
  const auto add = [&](const std::string& kind, std::span<const LayerGain> gains) {
    for (const LayerGain& gain : gains)
      table.add(kind, nameOf(gain.name).toStdString(), gain.copies, gain.rank_max_over_mean, unless_nan(gain.measured),
                gain.modelled, unless_nan(gain.measured_ms), gain.modelled_ms,
                unless_nan(gain.measured * gain.measured_ms), unless_nan(gain.comm_ms),
                unless_nan(gain.deep_ep_comm_ms));
  };
  add("measured elsewhere", answer_->gains.measured);
  add("modelled, groups", answer_->gains.by_groups);
  add("modelled, Zipf", answer_->gains.by_skew);
  if (const LayerGain* live = selectedGain()) add("modelled, this router", {live, 1});
  return table;
}

}  // namespace moescope
