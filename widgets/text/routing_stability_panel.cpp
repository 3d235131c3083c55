#include "widgets/text/routing_stability_panel.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "core/frame/specialisation.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

enum Against { kShortBefore, kHalfway, kFirst, kPinned };
constexpr std::size_t kMaxLines = 6;   // most lines; of more layers, only lowest, mean and highest are drawn
constexpr int kReportedRoutings = 16;  // number of routings that the worker reads before it reports

PyramidBin binOf(const std::vector<float>& values) {
  PyramidBin bin;
  for (const float value : values) bin.add(value);
  return bin;
}

float lowest(const std::vector<float>& values) {
  const PyramidBin bin = binOf(values);
  return bin.finite ? bin.min : kNoValue;
}

float highest(const std::vector<float>& values) {
  const PyramidBin bin = binOf(values);
  return bin.finite ? bin.max : kNoValue;
}

float meanOf(const std::vector<float>& values) {
  const PyramidBin bin = binOf(values);
  return bin.finite ? bin.mean() : kNoValue;
}

}  // namespace

QRectF StabilityBars::slot(std::size_t bar) const {
  const QRectF room = plotRect();
  const double width = room.width() / std::max<std::size_t>(1, bars_.size());
  return {room.left() + bar * width, room.top(), width, room.height()};
}

int StabilityBars::barAt(QPoint position) const {
  for (std::size_t i = 0; i < bars_.size(); ++i)
    if (slot(i).contains(position)) return to_int(i);
  return -1;
}

std::optional<FigureTarget> StabilityBars::figureAt(QPoint position) const {
  const int bar = notice().isEmpty() ? barAt(position) : -1;
  if (bar < 0 || !figureOfLayer) return std::nullopt;
  return figureOfLayer(bars_[bar].layer);
}

void StabilityBars::paintStatic(QPainter& painter) {
  const QRect room = plotRect();
  const Axis axis{0, 1, static_cast<double>(room.bottom()), static_cast<double>(room.top())};
  paintLeftAxis(painter, axis,
                {{0, QStringLiteral("0 %")},
                 {0.25, QStringLiteral("25 %")},
                 {0.5, QStringLiteral("50 %")},
                 {0.75, QStringLiteral("75 %")},
                 {1, QStringLiteral("100 %")}},
                caption_);
  const QFontMetrics metrics(painter.font());
  painter.setPen(mutedText(palette()));
  int last = -1000;
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    const QString label = QString("L%1").arg(bars_[i].layer);
    const int x = static_cast<int>(slot(i).center().x()), half_width = metrics.horizontalAdvance(label) / 2 + 2;
    if (x - half_width < last) continue;
    last = x + half_width;
    painter.drawText(QRect(x - half_width, room.bottom() + 3, 2 * half_width, metrics.height()), Qt::AlignCenter,
                     label);
  }
}

void StabilityBars::paintData(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    if (is_missing(bars_[i].stability)) continue;
    const QRectF place = slot(i);
    const double gap = std::min(6.0, place.width() * 0.15), height = place.height() * bars_[i].stability;
    const QRectF bar(place.left() + gap, place.bottom() - height, place.width() - 2 * gap, height);
    painter.fillRect(bar, QColor(colors(palette()).plain_bar));
    const QString label = QString::number(100 * static_cast<double>(bars_[i].stability), 'f', 0) + QStringLiteral(" %");
    if (metrics.horizontalAdvance(label) + 2 > place.width()) continue;
    painter.setPen(palette().text().color());
    painter.drawText(QRectF(place.left(), bar.top() - metrics.height() - 1, place.width(), metrics.height()),
                     Qt::AlignCenter, label);
  }
  if (is_missing(baseline_)) return;
  const QRect room = plotRect();
  const double y = room.bottom() - static_cast<double>(baseline_) * room.height();
  painter.setPen(QPen(palette().text().color(), 1, Qt::DashLine));
  painter.drawLine(QPointF(room.left(), y), QPointF(room.right(), y));
  painter.setPen(palette().text().color());
  const QString label = QString("by chance %1").arg(formatPercent(baseline_));
  const int width = metrics.horizontalAdvance(label) + 8;
  const QRect box(room.right() - width, static_cast<int>(y) - metrics.height() - 1, width, metrics.height());
  QColor ground = palette().base().color();
  ground.setAlpha(215);
  painter.fillRect(box, ground);
  painter.drawText(box, Qt::AlignCenter, label);
}

void StabilityBars::paintOverlay(QPainter& painter) {
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    if (bars_[i].layer != current_) continue;
    const QRectF place = slot(i);
    painter.setPen(Qt::NoPen);
    painter.setBrush(cursorColor(dark()));
    painter.drawRect(QRectF(place.left() + 2, place.bottom() + 1, place.width() - 4, 2));
    painter.setBrush(Qt::NoBrush);
  }
  PlotFrame::paintOverlay(painter);
}

QStringList StabilityBars::readoutAt(QPoint position) const {
  const int bar = describe ? barAt(position) : -1;
  return bar < 0 ? QStringList() : describe(bar);
}

void StabilityBars::mousePressEvent(QMouseEvent* event) {
  const int bar = notice().isEmpty() ? barAt(event->pos()) : -1;
  if (bar >= 0) emit layerChosen(bars_[bar].layer);
}

RoutingStabilityPanel::RoutingStabilityPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Routing stability", Provenance::measured_here, parent) {
  showAnswers();
  lines_ = new LinePlot(selection, this);
  lines_->setAccessibleName("Routing stability over steps");
  lines_->refill = [this] { refillLines(); };
  lines_->setPercent(true);
  lines_->setAtLeastShown(0, 1);
  lines_->note = [this](std::int64_t step) {
    const StabilityPoint* point = track_.at(step);
    return point ? QString("probe of step %1 against %2").arg(formatCount(point->step), formatCount(point->reference))
                 : QString("no earlier routing to compare with");
  };
  layers_ = new TimeHeatMap(selection, this);
  layers_->setAccessibleName("Routing stability by layer over steps");
  layers_->refill = [this] { refillLayers(); };
  layers_->setHeld(true);
  layers_->setWeights(sequentialWeights());
  layers_->describe = [this](int row, std::int64_t step) { return describeLayer(row, step); };
  layers_->figure = [this](int row, std::int64_t step) { return figure(track_.layers()[row], step); };
  connect(layers_, &TimeHeatMap::rowClicked, this, [this](int row) {
    if (row < std::ssize(track_.layers())) selection_->setLayer(track_.layers()[row]);
  });
  bars_ = new StabilityBars(this);
  bars_->setAccessibleName("Routing stability of all layers");
  bars_->refill = [this] { refillBars(); };
  bars_->describe = [this](int bar) { return describeLayer(bar, selection_->step()); };
  bars_->figureOfLayer = [this](int layer) { return figure(layer, selection_->step()); };
  connect(bars_, &StabilityBars::layerChosen, selection_, &Selection::setLayer);
  followSelection(bars_);

  stack_ = new QStackedWidget(this);
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{lines_, layers_, bars_}) stack_->addWidget(plot);
  view_ = makeChoice({"over steps", "by layer", "at this step"}, "View",
                     "over steps: a curve for each layer; with many layers the lowest, the mean and the highest\n"
                     "by layer: all layers over steps as a map\n"
                     "at this step: a bar for each layer at the cursor's step");
  connect(view_, &QComboBox::currentIndexChanged, stack_, &QStackedWidget::setCurrentIndex);
  figure_ = makeChoice({"tokens unchanged", "choices unchanged"}, "Compared figure",
                       "tokens unchanged: share of the probe's tokens that have exactly the same top-k experts\n"
                       "choices unchanged: share of the chosen experts that are the same, counted one by one; at least "
                       "the share of unchanged tokens");
  against_ = makeChoice(
      {"against 100 steps before", "against half the steps", "against the first", "against this step"}, "Earlier step",
      "Earlier routing of the same probe text that each step is compared with. The last choice keeps the step at\n"
      "which the cursor is now; choose it again to keep another one");
  for (QComboBox* choice : {figure_, against_})
    connect(choice, &QComboBox::currentIndexChanged, this, &RoutingStabilityPanel::markAll);
  connect(against_, &QComboBox::activated, this, [this](int index) {
    if (index != kPinned) return;
    pinned_ = selection_->step();
    against_->setItemText(kPinned, QString("against step %1").arg(formatCount(pinned_)));
    markAll();
  });
  for (QComboBox* choice : {view_, against_, figure_}) addControl(choice);
  addBody(stack_);
  keepState("view", view_);
  keepState("figure", figure_);
  keepState(
      "against", [this] { return std::min<int>(against_->currentIndex(), kFirst); },
      [this](const QVariant& state) { against_->setCurrentIndex(std::clamp(state.toInt(), 0, int{kFirst})); });
}

void RoutingStabilityPanel::markAll() {
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{lines_, layers_, bars_}) plot->markDirty();
  update();
}

RoutingStabilityPanel::HistoryPtr RoutingStabilityPanel::active() const {
  const auto& all = selection_->histories();
  return selection_->history() ? all[selection_->run()] : nullptr;
}

EarlierStep RoutingStabilityPanel::earlier() const {
  const int against = against_->currentIndex();
  if (against == kHalfway) return {EarlierStep::Kind::half_way, 0};
  if (against == kPinned) return {EarlierStep::Kind::at, std::max<std::int64_t>(0, pinned_)};
  if (against != kFirst) return {};
  const auto steps =
      selection_->history() ? selection_->history()->text_steps(TextKind::probe) : std::vector<std::int64_t>{};
  return {EarlierStep::Kind::at, steps.empty() ? 0 : steps.front()};
}

float RoutingStabilityPanel::baseline() const {
  const RunInfo& info = selection_->history()->info();
  return wholeSets() ? unchanged_baseline(info.top_k, info.n_experts) : stability_baseline(info.top_k, info.n_experts);
}

QString RoutingStabilityPanel::whyNoTrack() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  if (history->text_steps(TextKind::probe).empty()) return notInLogNotice(history->info(), "a routed probe text");
  if (!track_.points().empty()) return {};
  if (busy_ && track_.looked() < 0) return QString("Comparing the routings of the probe text");
  return QString(
             "No earlier routing to compare with yet. The probe text is routed every telemetry.texts_every steps; %1.")
      .arg(against_->currentIndex() == kShortBefore ? QString("a comparison needs a routing 100 steps earlier")
                                                    : QString("a comparison needs an earlier one"));
}

// Starts the worker if there are new data; earlier results are drawn until it reports.
void RoutingStabilityPanel::bringUpToDate() {
  const HistoryPtr history = active();
  if (!history || busy_) return;
  const EarlierStep chosen = earlier();
  if (track_of_ != history || track_.earlier() != chosen) {
    track_ = StabilityTrack(chosen);
    track_of_ = history;
    ++track_version_;
  }
  if (!track_.behind(*history)) return;
  busy_ = true;
  setProperty("busy", true);
  const auto updated = [history, track = track_](const std::stop_token&) mutable {
    track.update(*history, kReportedRoutings);
    return track;
  };
  worker_.compute(this, updated, [this, history](StabilityTrack track) { deliver(std::move(track), history); });
}

void RoutingStabilityPanel::deliver(StabilityTrack track, const HistoryPtr& history) {
  busy_ = false;
  setProperty("busy", false);
  if (history == active() && track.earlier() == earlier()) track_ = std::move(track);
  ++track_version_;
  markAll();  // continues if there is more
}

LineSeries RoutingStabilityPanel::series(const QString& label, int color,
                                         std::function<float(const StabilityPoint&)> value,
                                         std::function<int(const StabilityPoint&)> layer) const {
  LineSeries line{.history = active(), .label = label, .color = curveColor(*selection_, color)};
  line.fetch = [this, value](StepRange range, int bins) {
    std::vector<PyramidBin> slices(bins);
    if (range.size() == 1) {  // a single step has the newest value known at that step
      const StabilityPoint* point = track_.at(range.first);
      if (point && !is_missing(value(*point))) slices[0].add(value(*point));
      return slices;
    }
    for (auto point = std::ranges::lower_bound(track_.points(), range.first, {}, &StabilityPoint::step);
         point != track_.points().end() && point->step <= range.last; ++point)
      if (const float share = value(*point); !is_missing(share))
        slices[(point->step - range.first) * bins / range.size()].add(share);
    return slices;
  };
  line.figure = [this, layer](std::int64_t step) {
    const StabilityPoint* point = track_.at(step);
    return figure(point ? layer(*point) : kWholeRun, step);
  };
  return line;
}

void RoutingStabilityPanel::refillLines() {
  bringUpToDate();
  if (lines_->showsNotice(whyNoTrack())) return;
  const bool sets = wholeSets();
  const auto values = [sets](const StabilityPoint& p) -> const std::vector<float>& {
    return sets ? p.unchanged_L : p.shared_L;
  };
  const auto& layers = track_.layers();
  std::vector<LineSeries> all;
  for (std::size_t i = 0; i < layers.size() && layers.size() <= kMaxLines; ++i)
    all.push_back(series(
        QString("L%1").arg(layers[i]), to_int(i), [values, i](const StabilityPoint& p) { return values(p)[i]; },
        [layer = layers[i]](const StabilityPoint&) { return layer; }));
  if (all.empty()) {
    const auto layerWith = [values, layers](float (*pick)(const std::vector<float>&)) {
      return [=](const StabilityPoint& p) {
        const auto found = std::ranges::find(values(p), pick(values(p)));
        return found == values(p).end() ? kWholeRun : layers[found - values(p).begin()];
      };
    };
    all = {series(
               "highest", 2, [values](const StabilityPoint& p) { return highest(values(p)); }, layerWith(highest)),
           series(
               "mean", 0, [values](const StabilityPoint& p) { return meanOf(values(p)); },
               [](const StabilityPoint&) { return kWholeRun; }),
           series(
               "lowest", 1, [values](const StabilityPoint& p) { return lowest(values(p)); }, layerWith(lowest))};
  }
  lines_->setCaption(valueCaption());
  lines_->setReferences({{static_cast<double>(baseline()), QString("chance %1").arg(formatPercent(baseline()))}});
  lines_->setSeries(std::move(all));
}

void RoutingStabilityPanel::refillLayers() {
  bringUpToDate();
  if (layers_->showsNotice(whyNoTrack())) return;
  layers_->fetch = [this](StepRange range, int bins) {
    const std::size_t rows = track_.layers().size();
    std::vector<PyramidBin> cells(rows * bins);
    for (auto point = std::ranges::lower_bound(track_.points(), range.first, {}, &StabilityPoint::step);
         point != track_.points().end() && point->step <= range.last; ++point) {
      const std::size_t bin = (point->step - range.first) * bins / range.size();
      for (std::size_t row = 0; row < rows; ++row)
        if (const float share = point->value(wholeSets(), row); !is_missing(share)) cells[bin * rows + row].add(share);
    }
    std::vector<std::uint8_t> codes;
    for (const PyramidBin& cell : cells) codes.push_back(cell.finite ? scaleCode(cell.mean()) : kNoDataCode);
    return codes;
  };
  const auto& layers = track_.layers();
  layers_->setLegend({.lut = viridisLut(isDark(palette())), .low = "0 %", .high = "100 %", .caption = "same"});
  layers_->setRowAxis(ticksOf(layers), "layer", false);
  layers_->setSource(QStringLiteral("%1:%2").arg(track_version_).arg(wholeSets()), to_int(layers.size()));
  layers_->setCurrentRow(index_in(layers, selection_->layer()));
}

void RoutingStabilityPanel::refillBars() {
  bringUpToDate();
  if (bars_->showsNotice(whyNoTrack())) return;
  const StabilityPoint* point = track_.at(selection_->step());
  if (!point) return bars_->setNotice("No earlier routing to compare with at this step: choose a later step");
  std::vector<StabilityBars::Bar> bars;
  for (std::size_t i = 0; i < track_.layers().size(); ++i)
    bars.push_back({track_.layers()[i], point->value(wholeSets(), i)});
  if (std::ranges::all_of(bars, [](const auto& bar) { return is_missing(bar.stability); }))
    return bars_->setNotice(
        QString("The probe text was different at step %1: choose a later step").arg(point->reference));
  bars_->setBars(std::move(bars), baseline(), selection_->layer(), valueCaption());
}

FigureTarget RoutingStabilityPanel::figure(int layer, std::int64_t step) const {
  const StabilityPoint* point = track_.at(step);
  return {.key = wholeSets() ? FigureKey("unchanged_choices") : FigureKey("routing_stability"),
          .layer = layer,
          .step = point ? point->step : step,
          .reference = point ? point->reference : -1};
}

FigureTarget RoutingStabilityPanel::target(const MetricInfo& info) const {
  FigureTarget target = figure(selection_->layer(), selection_->step());
  target.key = info;
  return target;
}

QStringList RoutingStabilityPanel::describeLayer(int row, std::int64_t step) const {
  const StabilityPoint* point = track_.at(step);
  if (!point || row >= std::ssize(track_.layers())) return {};
  if (is_missing(point->unchanged_L[row])) return {"not comparable: the probe text or top_k was different"};
  return readout({point->step, point->reference, std::int64_t{track_.layers()[row]}});
}

Panel::Answer RoutingStabilityPanel::answer() const {
  const StabilityPoint* point = selection_->history() ? track_.at(selection_->step()) : nullptr;
  if (!point) return {};
  const float share = meanOf(wholeSets() ? point->unchanged_L : point->shared_L);
  if (is_missing(share)) return {};
  const QString what =
      (wholeSets() ? QString("%1 of the tokens keep their experts") : QString("%1 of the choices are unchanged"))
          .arg(formatPercent(share));
  const QString chance = QString(" (by chance %1)").arg(formatPercent(baseline()));
  const QString against = QString(" since step %1").arg(formatCount(point->reference));
  return {"Is the routing settled?", {what + against + chance, what + against, what}};
}

QString RoutingStabilityPanel::status() const {
  const StabilityPoint* point = selection_->history() ? track_.at(selection_->step()) : nullptr;
  if (!point) return {};
  return QString("%1, against step %2").arg(timeStatus(point->step, false), formatCount(point->reference));
}

// Lists the values of the visible steps, or the values of the bars.
ValueTable RoutingStabilityPanel::table() const {
  ValueTable table({"step", "earlier step", "layer", "tokens that keep their experts [share]", "by chance [share]",
                    "unchanged choices [share]", "by chance [share]"});
  if (!selection_->history()) return table;
  const RunInfo& info = selection_->history()->info();
  const float chance_sets = unchanged_baseline(info.top_k, info.n_experts),
              chance_experts = stability_baseline(info.top_k, info.n_experts);
  const StabilityPoint* shown = track_.at(selection_->step());
  for (const StabilityPoint& point : track_.points()) {
    const bool in_view = view_->currentIndex() == at_the_step
                             ? &point == shown
                             : point.step >= selection_->range().first && point.step <= selection_->range().last;
    for (std::size_t i = 0; in_view && i < track_.layers().size(); ++i)
      table.add(point.step, point.reference, track_.layers()[i], point.unchanged_L[i], chance_sets, point.shared_L[i],
                chance_experts);
  }
  return table;
}

}  // namespace moescope
