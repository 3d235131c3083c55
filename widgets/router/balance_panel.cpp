#include "widgets/router/balance_panel.h"

#include <fmt/core.h>

#include <QListView>
#include <QStandardItemModel>
#include <algorithm>
#include <cmath>

#include "core/frame/router_stats.h"
#include "widgets/look/counted_text.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/router/load_maps.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr double kHighestVio = 8;  // value at the high end of the colour scale
constexpr double kMinFactor = 0.5, kMaxFactor = 4, kFactorStep = 0.05, kDefaultFactor = 1.25;  // capacity factors

// Returns the position on a scale with readable distances between 0, 1/2, 1, 2, 4 and 8.
double vioPosition(double vio) {
  return std::isfinite(vio) ? std::log2(1 + std::max(0.0, vio)) / std::log2(1 + kHighestVio) : std::nan("");
}

LegendScale vioLegend(bool dark) {
  return {.lut = viridisLut(dark),
          .low = "0",
          .high = QStringLiteral("\u2265 %1").arg(kHighestVio),
          .caption = QStringLiteral("MaxVio")};
}

}  // namespace

BalancePanel::BalancePanel(Selection* selection, QWidget* parent)
    : FiguresPanel(selection, "Balance",
                   {{Metric::max_vio_window, Metric::max_vio},
                    {Metric::cv},
                    {Metric::entropy_norm},
                    {Metric::dead_fraction},
                    {Metric::rank_overload},
                    {Metric::ranks_per_token, Metric::nodes_per_token}},
                   parent) {
  view_ = makeChoice({"over time", "all layers", "by layer", "capacity"}, "View",
                     "Figures over steps; MaxVio of the median, 90 % and worst layer over steps; MaxVio of every layer "
                     "over steps; or the cost of a fixed capacity and of padding");
  span_ = makeChoice({"batch", "window"}, "MaxVio of", "MaxVio of one batch, or of the last W steps together");
  for (QWidget* control : {view_, span_}) addControl(control);
  stack_ = new QStackedWidget(this);
  addViews(stack_);
  connect(view_, &QComboBox::currentIndexChanged, this, &BalancePanel::showView);
  connect(selection_, &Selection::dataChanged, this, &BalancePanel::offerCapacity);
  offerCapacity();
  connect(span_, &QComboBox::currentIndexChanged, this, [this] {
    lines_->markDirty();
    layers_map_->markDirty();
  });
  showAnswers();
  addBody(stack_);
  showView();
  keepState("view", view_);
  keepState("window", span_);
}

void BalancePanel::addViews(QWidget* parent) {
  lines_ = new LinePlot(selection_, parent);
  lines_->setAccessibleName("MaxVio over layers");
  lines_->refill = [this] { refillLines(); };
  layers_map_ = new TimeHeatMap(selection_, parent);
  addLayersMap();
  capacity_ = new CurvePlot(parent);
  addCapacity();
  followSelection(capacity_);
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{lines_, layers_map_, capacity_}) stack_->addWidget(plot);
}

void BalancePanel::addLayersMap() {
  layers_map_->setAccessibleName("MaxVio by layer");
  layers_map_->refill = [this] { refillLayers(); };
  layers_map_->setHeld(true);
  layers_map_->setWeights(sequentialWeights());
  layers_map_->fetch = [this](StepRange range, int bins) { return fetchLayers(range, bins); };
  layers_map_->describe = [this](int row, std::int64_t step) {
    const ValueTable table = tableOfLayers({step, step});
    const auto found =
        table.find(std::array<TableValue, 2>{step, std::int64_t{selection_->history()->info().moe_layers[row]}});
    return found ? rowText(table, *found, 2) : QStringList();
  };
  layers_map_->figure = [this](int row, std::int64_t step) {
    const int layer = selection_->history()->info().moe_layers[row];
    return FigureTarget{.key = shownMetric(), .layer = layer, .step = step};
  };
  connect(layers_map_, &TimeHeatMap::rowClicked, this,
          [this](int row) { selection_->setLayer(selection_->history()->info().moe_layers[row]); });
}

void BalancePanel::addCapacity() {
  capacity_->setAccessibleName("Cost of a fixed capacity");
  capacity_->setXAxis("capacity factor c; room for c T K / E tokens an expert", kMinFactor, kMaxFactor);
  capacity_->setValueCaption("share of the copies, what-if");
  capacity_->refill = [this] { refillCapacity(); };
  capacity_->describe = [this](double factor) {
    const ValueTable table = tableOfCapacity(factor);
    const auto frame = selection_->frame();
    const auto found =
        frame ? table.find(std::array<TableValue, 2>{frame->step, std::int64_t{selection_->layer()}}) : std::nullopt;
    return found ? rowText(table, *found, 3) : QStringList();
  };
  capacity_->figureOf = [this](QPoint at) -> std::optional<FigureTarget> {
    return FigureTarget{.key = FigureKey(Metric::dropped_fraction),
                        .layer = selection_->layer(),
                        .step = selection_->step(),
                        .parameter = capacity_->xAt(at)};
  };
}

// Offers the view of the capacity only for runs with a capacity or padding.
void BalancePanel::offerCapacity() {
  const auto history = selection_->history();
  const std::int64_t newest = history ? history->steps().last : -1;
  const bool is_set = newest >= 0 && (!is_missing(history->value_at(Metric::dropped_fraction, kWholeRun, newest)) ||
                                      history->settings_at(newest)->value(&DataConfig::padding).value_or(0) > 0);
  auto* list = static_cast<QListView*>(view_->view());
  list->setRowHidden(capacity, !is_set);
  static_cast<QStandardItemModel*>(view_->model())->item(capacity)->setEnabled(is_set);
}

void BalancePanel::showView() {
  setFiguresShown(view() == figures);
  stack_->setVisible(view() != figures);
  span_->setVisible(view() == all_layers || view() == by_layer);
  if (view() == figures) return;
  stack_->setCurrentIndex(view() - 1);
  giveFocusTo(stack_->currentWidget());
}

QString BalancePanel::status() const {
  return view() == figures ? FiguresPanel::status() : timeStatus(selection_->step(), view() == capacity);
}

Panel::Answer BalancePanel::answer() const {
  if (view() == capacity) return answerOfCapacity();
  if (!whyNothing().isEmpty()) return {};
  const History& history = *selection_->history();
  // The tiles have MaxVio of the window.
  const float window_median = history.value_at(Metric::max_vio_window_p50, kWholeRun, selection_->step());
  const bool uses_window = window() || (view() == figures && !is_missing(window_median));
  const Metric metric = uses_window ? Metric::max_vio_window : Metric::max_vio;
  const auto worst_of = [&](const History& run) {
    return worst_layer(run, metric, selection_->shownStepOf(run), Worst::largest);
  };
  const auto value_of = [&](const History& run) {
    const LayerValue worst = worst_of(run);
    return worst.layer < 0 ? QString() : formatValue(worst.value, 3);
  };
  const auto text_of = [&](const History& run) {
    const QString value = value_of(run);
    return value.isEmpty() ? value : QString("layer %1, MaxVio %2").arg(worst_of(run).layer).arg(value);
  };
  const QString worst_text = text_of(history), question = "How even are the layers?";
  if (worst_text.isEmpty()) return {};
  const StepRange steps = window_steps(history, selection_->step(), uses_window ? history.info().window : 1);
  const QString range = selection_->windowText(steps), in_range = QStringLiteral(", ") + range;
  if (const QString all = textOfRuns(*selection_, text_of); !all.isEmpty())
    return {question, {all + in_range, all, "MaxVio " + textOfRuns(*selection_, value_of)}};
  const float median =
      uses_window ? window_median : history.value_at(Metric::max_vio_p50, kWholeRun, selection_->step());
  const QString first = QString("Most uneven %1 %2: %3").arg(uses_window ? "over" : "at", range, worst_text);
  return {
      question,
      {first + QString("; median layer %1").arg(formatValue(double{median}, 3)), first, "Most uneven: " + worst_text}};
}

Metric BalancePanel::percentileMetric(int percentile) const {
  const Metric first = window() ? Metric::max_vio_window_p50 : Metric::max_vio_p50;
  return static_cast<Metric>(static_cast<int>(first) + percentile);
}

QString BalancePanel::whyNothing() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  if (is_missing(history->value_at(percentileMetric(0), kWholeRun, history->steps().last)))
    return notInLogNotice(history->info(), "MaxVio");
  return {};
}

void BalancePanel::refillLines() {
  if (lines_->showsNotice(whyNothing())) return;
  const auto& active = selection_->histories()[selection_->run()];
  const RunInfo& info = active->info();
  lines_->setCaption(window() ? "MaxVio, last " + countedText(info.window, "step") : QString("MaxVio of the batch"));
  std::vector<ReferenceLine> references;
  const double floor = chance_max_vio(info, window() ? info.window : 1);
  if (!std::isnan(floor)) {
    references.push_back({floor, QString("chance %1").arg(formatValue(floor, 2))});
    lines_->setAtLeastShown(0, 1.2 * floor);
  }
  lines_->setReferences(std::move(references));
  lines_->setSeries({{active, percentileMetric(2), kWholeRun, "worst", curveColor(*selection_, 1), 0},
                     {active, percentileMetric(1), kWholeRun, "90 %", curveColor(*selection_, 3), 0},
                     {active, percentileMetric(0), kWholeRun, "median", curveColor(*selection_), 0}});
}

std::vector<std::uint8_t> BalancePanel::fetchLayers(StepRange range, int bins) const {
  const History* history = selection_->history();
  const auto& layers = history->info().moe_layers;
  std::vector<std::uint8_t> codes(layers.size() * bins, kNoDataCode);
  for (std::size_t row = 0; row < layers.size(); ++row) {
    const auto slices = history->series(shownMetric(), layers[row], range, bins);
    for (std::size_t bin = 0; bin < slices.size(); ++bin)
      if (slices[bin].finite > 0) codes[bin * layers.size() + row] = scaleCode(vioPosition(slices[bin].mean()));
  }
  return codes;
}

void BalancePanel::refillLayers() {
  if (layers_map_->showsNotice(whyNothing())) return;
  const History* history = selection_->history();
  const auto& layers = history->info().moe_layers;
  std::vector<Tick> ticks;
  for (std::size_t row = 0; row < layers.size(); ++row)
    ticks.push_back({static_cast<double>(row), QString::number(layers[row])});
  layers_map_->setLegend(vioLegend(isDark(palette())));
  layers_map_->setRowAxis(std::move(ticks), "layer", false);
  layers_map_->setSource(QStringLiteral("%1:%2").arg(reinterpret_cast<quintptr>(history)).arg(window()),
                         to_int(layers.size()));
  noteColumns(layers_map_, "mean");
  layers_map_->setCurrentRow(index_in(layers, selection_->layer()));
}

// Shares of the copies that a router with each capacity factor would drop, and of rows that would fill its experts.
void BalancePanel::refillCapacity() {
  if (!hasSteps(capacity_)) return;
  const auto frame = selection_->frame();
  const bool known = frame && std::ranges::any_of(frame->routers,
                                                  [](const auto& router) { return !router.tokens_per_expert.empty(); });
  capacity_->setNotice(known ? QString() : notInLogNotice(selection_->history()->info(), "tokens per expert"));
  if (!known) return;
  CurvePlot::Curve worst{.label = "dropped, worst layer", .color = curveColor(*selection_, 1), .points = {}};
  CurvePlot::Curve mean{.label = "dropped, mean of layers", .color = curveColor(*selection_), .points = {}};
  CurvePlot::Curve one{.label = QString("dropped, layer %1").arg(selection_->layer()),
                       .color = curveColor(*selection_, 3),
                       .points = {}};
  CurvePlot::Curve filler{.label = "filler rows, mean of layers", .color = curveColor(*selection_, 2), .points = {}};
  for (double factor = kMinFactor; factor <= kMaxFactor + 1e-9; factor += kFactorStep) {
    double dropped = 0, filled = 0, largest = 0;
    for (const RouterFrame& router : frame->routers) {
      const double share = dropped_fraction(router.tokens_per_expert, factor);
      if (!std::isfinite(share)) continue;  // nothing was routed
      dropped += share;
      filled += filler_fraction(router.tokens_per_expert, factor);
      largest = std::max(largest, share);
      if (router.layer == selection_->layer()) one.points.emplace_back(factor, share);
    }
    const double layers = frame->routers.size();
    mean.points.emplace_back(factor, dropped / layers);
    filler.points.emplace_back(factor, filled / layers);
    worst.points.emplace_back(factor, largest);
  }
  capacity_->setMark(capacityFactor());
  capacity_->setCurves({worst, mean, one, filler});
}

double BalancePanel::capacityFactor() const {
  const History* history = selection_->history();
  const auto factor = history ? history->settings_at(selection_->step())->value(&RouterConfig::capacity_factor)
                              : std::optional<double>();
  return factor && *factor > 0 ? std::clamp(*factor, kMinFactor, kMaxFactor) : kDefaultFactor;
}

Panel::Answer BalancePanel::answerOfCapacity() const {
  const auto frame = selection_->frame();
  double dropped = 0, padded = 0;
  int layers = 0;
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    if (is_missing(max_vio(router.tokens_per_expert))) continue;  // nothing was routed
    dropped += dropped_fraction(router.tokens_per_expert, capacityFactor());
    padded += router.padding_fraction;  // missing for shares, which have no rows
    ++layers;
  }
  if (layers == 0) return {};
  const QString first = QString("Capacity factor %1 would drop %2 of the token copies")
                            .arg(capacityFactor(), 0, 'f', 2)
                            .arg(formatPercent(dropped / layers));
  const QString padding =
      QString("padded to multiples of 32, %1 of the rows are zeros").arg(formatPercent(padded / layers));
  return {"What would a fixed capacity cost?",
          {std::isnan(padded) ? first : first + QStringLiteral("; ") + padding, first}};
}

ValueTable BalancePanel::table() const {
  switch (view()) {
    case figures:
      return FiguresPanel::table();
    case all_layers:
      lines_->refill();  // fills in the present values, which may not have been painted yet
      return lines_->table();
    case by_layer:
      return tableOfLayers(selection_->range());
    case capacity:
      return tableOfCapacity(capacityFactor());
  }
  return {};
}

ValueTable BalancePanel::tableOfLayers(StepRange range) const {
  ValueTable table({{selection_->stepWord().toStdString()},
                    {"layer"},
                    columnOf(metric_info(Metric::max_vio)),
                    columnOf(metric_info(Metric::max_vio_window))});
  const History* history = selection_->history();
  if (!history || range.empty()) return table;
  const std::vector<std::int64_t> steps = history->steps_in(range);
  for (const int layer : history->info().moe_layers) {
    const auto batch = history->values_at(Metric::max_vio, layer, steps);
    const auto window = history->values_at(Metric::max_vio_window, layer, steps);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (!is_missing(batch[i])) table.add(steps[i], layer, batch[i], window[i]);
  }
  return table;
}

ValueTable BalancePanel::tableOfCapacity(double factor) const {
  std::vector<ValueColumn> columns{{selection_->stepWord().toStdString()},
                                   {"layer"},
                                   {"capacity factor", "", 3},
                                   {"would drop", "share"},
                                   {"filler rows", "share"}};
  for (const std::uint32_t alignment : kAlignments)
    columns.push_back({fmt::format("zero rows padded to {}", alignment), "share"});
  ValueTable table(std::move(columns));
  const auto frame = selection_->frame();
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
    const auto& counts = router.tokens_per_expert;
    if (counts.empty()) continue;
    const auto padding = [&](std::uint32_t alignment) {
      return are_shares(selection_->history()->info(), router) ? kNoValue : padding_fraction(counts, alignment);
    };
    table.add(frame->step, router.layer, factor, dropped_fraction(counts, factor), filler_fraction(counts, factor),
              padding(kAlignments[0]), padding(kAlignments[1]), padding(kAlignments[2]), padding(kAlignments[3]));
  }
  return table;
}

}  // namespace moescope
