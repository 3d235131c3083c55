#include "widgets/router/padding_and_capacity_panel.h"

#include <QButtonGroup>
#include <algorithm>
#include <cmath>

#include "core/frame/router_stats.h"
#include "widgets/look/layouts.h"
#include "widgets/panel/csv.h"

namespace moescope {
namespace {

constexpr int kDrops = static_cast<int>(PaddingAndCapacityPanel::kAlignments.size()), kFiller = kDrops + 1;
constexpr double kLeastFactor = 0.5, kMaxFactor = 4, kFactorStep = 0.05;

// Returns the copies above the capacity, or the rows that fill experts up to it, as a share of all copies.
double shareAt(int figure, const RouterFrame& router, double factor) {
  return figure == kFiller ? filler_fraction(router.tokens_per_expert, factor)
                           : dropped_fraction(router.tokens_per_expert, factor);
}

QString tileName(int figure) {
  if (figure == kDrops) return QString("Drop");
  if (figure == kFiller) return QString("Fill");
  return QString("Pad %1").arg(PaddingAndCapacityPanel::kAlignments[figure]);
}

QString tileTip(int figure) {
  if (figure == kDrops)
    return QString("Assignments beyond the capacity, as a share of all assignments; mean of layers");
  if (figure == kFiller)
    return QString(
        "Rows with gate 0 that would fill every expert up to its capacity, as a share of all copies; mean of layers");
  return QString(
             "Zero rows when every expert's rows are padded to a multiple of %1, as a share of all rows; mean of "
             "layers")
      .arg(PaddingAndCapacityPanel::kAlignments[figure]);
}

int sliderPlace(double factor) {
  return static_cast<int>(std::lround((factor - kLeastFactor) / kFactorStep));
}

}  // namespace

PaddingAndCapacityPanel::PaddingAndCapacityPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Padding and capacity", Provenance::measured_here, parent) {
  showAnswers();
  auto* row = new QWidget(this);
  auto* tiles = plainRow(row, 2);
  auto* group = new QButtonGroup(this);
  for (int i = 0; i <= kFiller; ++i) {
    auto* tile = new ValueTile(
        selection, tileName(i), [this, i] { return valueText(i); }, row);
    tile->setCheckable(true);
    tile->setToolTip(tileTip(i));
    tile->figure = [this, i] { return figure(i, kWholeRun, capacityFactor()); };
    group->addButton(tile, i);
    tiles->addWidget(tile);
    tiles_[i] = tile;
  }
  addBody(row, 0);
  plot_ = new CurvePlot(this);
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](double x) { return describe(x); };
  plot_->figureOf = [this](QPoint at) -> std::optional<FigureTarget> {
    const double x = plot_->xAt(at);
    if (shown_ >= kDrops) return figure(shown_, selection_->layer(), x);
    return figure(shown_, static_cast<int>(std::lround(x)), x);
  };
  followSelection(plot_);
  connect(plot_, &CurvePlot::xChosen, this, [this](double x) {
    shown_ >= kDrops ? setCapacityFactor(x) : selection_->setLayer(static_cast<int>(std::lround(x)));
  });
  addBody(plot_);
  hideWhenLow(plot_);

  factor_row_ = new QWidget(this);
  auto* knob = new QHBoxLayout(factor_row_);
  knob->setContentsMargins(4, 0, 4, 0);
  factor_text_ = new QLabel(factor_row_);
  factor_ = new QSlider(Qt::Horizontal, factor_row_);
  factor_->setRange(0, sliderPlace(kMaxFactor));
  factor_->setAccessibleName("Capacity factor");
  factor_->setToolTip("Capacity factor for which dropped copies are computed");
  knob->addWidget(factor_text_);
  knob->addWidget(factor_, 1);
  addBody(factor_row_, 0);
  connect(factor_, &QSlider::valueChanged, this, [this] {
    factor_text_->setText(QString("what-if capacity factor %1").arg(capacityFactor(), 0, 'f', 2));
    plot_->markDirty();
    for (const int i : {kDrops, kFiller}) tiles_[i]->update();
  });
  connect(group, &QButtonGroup::idClicked, this, &PaddingAndCapacityPanel::showFigure);
  setCapacityFactor(1.25);
  showFigure(kDrops);
  keepState(
      "figure", [this] { return shown_; }, [this](const QVariant& state) { showFigure(state.toInt()); });
  keepState(
      "factor", [this] { return capacityFactor(); },
      [this](const QVariant& state) { setCapacityFactor(state.toDouble()); });
}

void PaddingAndCapacityPanel::showFigure(int figure) {
  shown_ = std::clamp(figure, 0, kFiller);
  tiles_[shown_]->setChecked(true);
  factor_row_->setVisible(shown_ >= kDrops);
  plot_->markDirty();
}

void PaddingAndCapacityPanel::setCapacityFactor(double factor) {
  factor_->setValue(sliderPlace(std::clamp(factor, kLeastFactor, kMaxFactor)));
}

double PaddingAndCapacityPanel::capacityFactor() const {
  return kLeastFactor + factor_->value() * kFactorStep;
}

FigureTarget PaddingAndCapacityPanel::figure(int which, int layer, double factor) const {
  const FigureKey key = which == kFiller  ? FigureKey("filler_fraction")
                        : which == kDrops ? FigureKey(Metric::dropped_fraction)
                                          : FigureKey(Metric::padding_fraction);
  const double parameter = which >= kDrops ? factor : kAlignments[which];
  return {.key = key, .layer = layer, .step = selection_->step(), .parameter = parameter};
}

double PaddingAndCapacityPanel::figureOf(const RouterFrame& router, int figure) const {
  return figure >= kDrops ? shareAt(figure, router, capacityFactor())
                          : padding_fraction(router.tokens_per_expert, kAlignments[figure]);
}

void PaddingAndCapacityPanel::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!hasSteps(plot_)) return;
  const auto frame = selection_->frame();
  if (!frame || frame->routers.empty() || frame->routers[0].tokens_per_expert.empty())
    return plot_->setNotice(notInLogNotice(history->info(), "tokens per expert"));
  frame_ = frame;
  plot_->setNotice({});
  shown_ >= kDrops ? drawAgainstCapacity() : drawPadding();
}

void PaddingAndCapacityPanel::drawPadding() {
  CurvePlot::Curve curve{.label = {}, .color = 0, .points = {}};
  for (const RouterFrame& router : frame_->routers) curve.points.emplace_back(router.layer, figureOf(router, shown_));
  const double first = frame_->routers.front().layer, last = frame_->routers.back().layer;
  plot_->setBars(true);
  plot_->setXAxis("layer", first - 0.5, last + 0.5);
  plot_->setValueCaption("zero rows");
  plot_->setMark(selection_->layer());
  plot_->setMarkStep(1);
  plot_->setCurves({curve});
}

void PaddingAndCapacityPanel::drawAgainstCapacity() {
  CurvePlot::Curve worst{.label = "worst layer", .color = 1, .points = {}};
  CurvePlot::Curve mean{.label = "mean of layers", .color = 0, .points = {}};
  CurvePlot::Curve one{.label = QString("layer %1").arg(selection_->layer()), .color = 3, .points = {}};
  for (double factor = kLeastFactor; factor <= kMaxFactor + 1e-9; factor += kFactorStep) {
    double sum = 0, largest = 0;
    int layers = 0;
    for (const RouterFrame& router : frame_->routers) {
      const double share = shareAt(shown_, router, factor);
      if (!std::isfinite(share)) continue;
      sum += share;
      ++layers;
      largest = std::max(largest, share);
      if (router.layer == selection_->layer()) one.points.emplace_back(factor, share);
    }
    mean.points.emplace_back(factor, layers ? sum / layers : 0);
    worst.points.emplace_back(factor, largest);
  }
  plot_->setBars(false);
  plot_->setXAxis("capacity factor c; room for c T K / E tokens an expert", kLeastFactor, kMaxFactor);
  plot_->setValueCaption(shown_ == kFiller ? QString("filler, what-if") : QString("dropped, what-if"));
  plot_->setMark(capacityFactor());
  plot_->setMarkStep(kFactorStep);
  plot_->setCurves({worst, mean, one});
}

QStringList PaddingAndCapacityPanel::describe(double x) const {
  if (!frame_) return {};
  if (shown_ < kDrops) {
    const RouterFrame* router = find_router(frame_.get(), static_cast<int>(std::lround(x)));
    if (!router) return {};
    QStringList lines{QString("layer %1").arg(router->layer)};
    for (int i = 0; i < kDrops; ++i)
      lines << QString("padded to %1: %2 zero rows").arg(kAlignments[i]).arg(formatPercent(figureOf(*router, i)));
    return lines;
  }
  QStringList lines{QString("capacity factor %1").arg(x, 0, 'f', 2)};
  double sum = 0;
  for (const RouterFrame& router : frame_->routers) {
    const double drop = dropped_fraction(router.tokens_per_expert, x);
    sum += std::isfinite(drop) ? drop : 0;
    if (router.layer != selection_->layer()) continue;
    const double filler = filler_fraction(router.tokens_per_expert, x);
    lines << QString("layer %1 would drop %2").arg(router.layer).arg(formatPercent(drop))
          << QString("padded to capacity: %1 more rows, %2 of all rows used")
                 .arg(formatPercent(filler), formatPercent((1 - drop) / (1 - drop + filler)));
  }
  lines << QString("mean of layers %1").arg(formatPercent(sum / static_cast<double>(frame_->routers.size())));
  return lines;
}

QString PaddingAndCapacityPanel::valueText(int figure) const {
  const auto frame = selection_->frame();
  double sum = 0;
  int layers = 0;
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    const double value = figureOf(router, figure);
    if (!std::isfinite(value)) continue;
    sum += value;
    ++layers;
  }
  return layers ? formatPercent(sum / layers) : QString("no data");
}

Panel::Answer PaddingAndCapacityPanel::answer() const {
  const auto frame = selection_->frame();
  if (!frame || frame->routers.empty() || frame->routers[0].tokens_per_expert.empty()) return {};
  const QString share = valueText(shown_);
  if (shown_ < kDrops) {
    const QString rows = QString::number(kAlignments[shown_]);
    return {"What does padding cost?",
            {QString("Padded to multiples of %1, %2 of the rows are zeros").arg(rows, share),
             QString("%1 zero rows").arg(share)}};
  }
  const QString factor = QString::number(capacityFactor(), 'f', 2);
  const QString what = shown_ == kFiller ? QString("At capacity factor %1 the filler is %2 of the copies")
                                         : QString("Capacity factor %1 would drop %2 of the assignments");
  const QString brief = shown_ == kFiller ? QString("Filler %1") : QString("Drops %1");
  return {"What would a fixed capacity cost?", {what.arg(factor, share), brief.arg(share)}};
}

QString PaddingAndCapacityPanel::status() const {
  const auto frame = selection_->frame();
  return frame ? timeStatus(frame->step, true) : QString();
}

QString PaddingAndCapacityPanel::csv() const {
  QString text = QStringLiteral("step,layer");
  for (const std::uint32_t alignment : kAlignments)
    text += QStringLiteral(",zero rows padded to %1 (share)").arg(alignment);
  text += QStringLiteral(",capacity factor,dropped what-if (share),filler if padded to capacity (share)\n");
  const auto frame = selection_->frame();
  if (!frame) return text;
  for (const RouterFrame& router : frame->routers) {
    text += QStringLiteral("%1,%2").arg(frame->step).arg(router.layer);
    for (int i = 0; i < kDrops; ++i) text += QStringLiteral(",%1").arg(figureOf(router, i), 0, 'g', 7);
    text += QLatin1Char(',') +
            csvRow(capacityFactor(), digits(figureOf(router, kDrops), 7), digits(figureOf(router, kFiller), 7));
  }
  return text;
}

}  // namespace moescope
