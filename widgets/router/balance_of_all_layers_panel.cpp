#include "widgets/router/balance_of_all_layers_panel.h"

#include <algorithm>
#include <cmath>

#include "core/frame/router_stats.h"
#include "widgets/panel/csv.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/router/load_maps.h"

namespace moescope {
namespace {

constexpr std::array<double, 5> kShares = {0, 0.1, 0.5, 0.9, 1};
constexpr double kHighestVio = 8;  // value at the high end of the colour scale

// Returns the position on a scale with readable distances between 0, 1/2, 1, 2, 4 and 8.
double vioPosition(double vio) {
  return std::isfinite(vio) ? std::log2(1 + std::max(0.0, vio)) / std::log2(1 + kHighestVio) : std::nan("");
}

LegendScale vioLegend(bool dark) {
  LegendScale legend{.lut = viridisLut(dark), .ticks = {}, .caption = QStringLiteral("MaxVio"), .beyond = true};
  for (const double vio : {0.0, 0.5, 1.0, 2.0, 4.0, 8.0})
    legend.ticks.push_back({vioPosition(vio), QString::number(vio)});
  return legend;
}

std::array<float, 5> spreadOf(const std::vector<std::uint32_t>& counts) {
  std::vector<float> loads;
  double total = 0;
  for (const std::uint32_t n : counts) total += n;
  for (const std::uint32_t n : counts)
    loads.push_back(static_cast<float>(n * static_cast<double>(counts.size()) / total));
  std::array<float, 5> values{};
  std::ranges::transform(kShares, values.begin(), [&](double share) { return percentile(loads, share); });
  return values;
}

}  // namespace

BalanceOfAllLayersPanel::BalanceOfAllLayersPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Balance of all layers", Provenance::measured_here, parent) {
  lines_ = new LinePlot(selection, this);
  lines_->setAccessibleName("MaxVio over layers");
  lines_->refill = [this] { refillLines(); };
  layers_ = new TimeHeatMap(selection, this);
  layers_->setAccessibleName("MaxVio by layer");
  layers_->refill = [this] { refillLayers(); };
  layers_->setHeld(true);
  layers_->setWeights(sequentialWeights());
  layers_->fetch = [this](StepRange range, int bins) { return fetchLayers(range, bins); };
  layers_->describe = [this](int row, std::int64_t step) { return describeLayer(row, step); };
  layers_->figure = [this](int row, std::int64_t step) {
    const int layer = selection_->history()->info().moe_layers[row];
    return FigureTarget{.key = shownMetric(), .layer = layer, .step = step};
  };
  connect(layers_, &TimeHeatMap::rowClicked, this,
          [this](int row) { selection_->setLayer(selection_->history()->info().moe_layers[row]); });
  spread_ = new PercentilePlot(this);
  spread_->setAccessibleName("Spread of the load within each layer");
  spread_->setValueCaption("utilisation, 1 = fair");
  spread_->refill = [this] { refillSpread(); };
  spread_->describe = [this](int layer) { return describeSpread(layer); };
  connect(spread_, &PercentilePlot::groupChosen, selection_, &Selection::setLayer);
  followSelection(spread_);

  view_ = makeChoice({"over layers", "by layer", "within layers"}, "View",
                     "Median, 90 % and worst layer over steps; every layer over steps; or the spread of the experts' "
                     "load within each layer at one step");
  span_ = makeChoice({"batch", "window"}, "MaxVio of", "MaxVio of one batch, or of the last W steps together");
  stack_ = new QStackedWidget(this);
  for (PlotFrame* plot :
       {static_cast<PlotFrame*>(lines_), static_cast<PlotFrame*>(layers_), static_cast<PlotFrame*>(spread_)})
    stack_->addWidget(plot);
  connect(view_, &QComboBox::currentIndexChanged, this, [this](int view) {
    stack_->setCurrentIndex(view);
    span_->setVisible(view != within_layers);
  });
  connect(span_, &QComboBox::currentIndexChanged, this, [this] {
    lines_->markDirty();
    layers_->markDirty();
  });
  addControl(view_);
  addControl(span_);
  showAnswers();
  addBody(stack_);
  keepState("view", view_);
  keepState("window", span_);
}

Panel::Answer BalanceOfAllLayersPanel::answer() const {
  if (!whyNothing().isEmpty()) return {};
  const History& history = *selection_->history();
  int worst = -1;
  float largest = kNoValue;
  for (const int layer : history.info().moe_layers) {
    const float vio = history.value_at(shownMetric(), layer, selection_->step());
    if (is_missing(vio) || (worst >= 0 && vio <= largest)) continue;
    worst = layer;
    largest = vio;
  }
  if (worst < 0) return {};
  const float median = history.value_at(percentileMetric(0), kWholeRun, selection_->step());
  const StepRange steps = history.last_steps(window() ? history.info().window : 1, selection_->step());
  const QString most = QString("layer %1, MaxVio %2").arg(worst).arg(formatValue(double(largest), 3));
  const QString first = QString("Most uneven %1 %2: %3")
                            .arg(window() ? QString("over") : QString("at"), selection_->rangeText(steps), most);
  return {"How even are the layers?",
          {QString("%1; median layer %2").arg(first, formatValue(double(median), 3)), first, most}};
}

Metric BalanceOfAllLayersPanel::percentileMetric(int percentile) const {
  const Metric first = window() ? Metric::max_vio_window_p50 : Metric::max_vio_p50;
  return static_cast<Metric>(static_cast<int>(first) + percentile);
}

QString BalanceOfAllLayersPanel::whyNothing() const {
  const History* history = selection_->history();
  if (!history) return noRunNotice();
  if (history->steps().empty()) return noDataYetNotice(*selection_);
  if (is_missing(history->value_at(percentileMetric(0), kWholeRun, history->steps().last)))
    return notInLogNotice(history->info(), "MaxVio");
  return {};
}

void BalanceOfAllLayersPanel::refillLines() {
  lines_->setNotice(whyNothing());
  if (!lines_->notice().isEmpty()) return;
  const auto& active = selection_->histories()[selection_->run()];
  const RunInfo& info = active->info();
  lines_->setCaption(window() ? QString("MaxVio, last %1 steps").arg(info.window) : QString("MaxVio of the batch"));
  std::vector<ReferenceLine> references;
  const double floor = chance_max_vio(info, window() ? info.window : 1);
  if (!std::isnan(floor)) {
    references.push_back({floor, QString("chance %1").arg(formatValue(floor, 2))});
    lines_->setAtLeastShown(0, 1.2 * floor);
  }
  lines_->setReferences(std::move(references));
  lines_->setSeries({{active, percentileMetric(2), kWholeRun, "worst", 1, 0},
                     {active, percentileMetric(1), kWholeRun, "90 %", 3, 0},
                     {active, percentileMetric(0), kWholeRun, "median", 0, 0}});
}

std::vector<std::uint8_t> BalanceOfAllLayersPanel::fetchLayers(StepRange range, int bins) const {
  const History* history = selection_->history();
  const auto& layers = history->info().moe_layers;
  std::vector<std::uint8_t> codes(layers.size() * static_cast<std::size_t>(bins), kNoDataCode);
  for (std::size_t row = 0; row < layers.size(); ++row) {
    const auto slices = history->series(shownMetric(), layers[row], range, bins);
    for (std::size_t bin = 0; bin < slices.size(); ++bin)
      if (slices[bin].finite > 0) codes[bin * layers.size() + row] = scaleCode(vioPosition(slices[bin].mean()));
  }
  return codes;
}

void BalanceOfAllLayersPanel::refillLayers() {
  layers_->setNotice(whyNothing());
  if (!layers_->notice().isEmpty()) return;
  const History* history = selection_->history();
  const auto& layers = history->info().moe_layers;
  std::vector<Tick> ticks;
  for (std::size_t row = 0; row < layers.size(); ++row)
    ticks.push_back({static_cast<double>(row), QString::number(layers[row])});
  layers_->setLegend(vioLegend(isDark(palette())));
  layers_->setRowAxis(std::move(ticks), "layer", false);
  layers_->setSource(QStringLiteral("%1:%2").arg(reinterpret_cast<quintptr>(history)).arg(window()),
                     static_cast<int>(layers.size()));
  noteColumns(layers_, "mean");
  const auto place = std::ranges::find(layers, selection_->layer());
  layers_->setCurrentRow(place == layers.end() ? -1 : static_cast<int>(place - layers.begin()));
}

void BalanceOfAllLayersPanel::refillSpread() {
  spread_->setNotice(whyNothing());
  if (!spread_->notice().isEmpty()) return;
  const auto frame = selection_->frame();
  std::vector<PercentilePlot::Group> groups;
  for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{})
    if (!is_missing(max_vio(router.tokens_per_expert)))
      groups.push_back({router.layer, spreadOf(router.tokens_per_expert)});
  if (groups.empty()) return spread_->setNotice(notInLogNotice(selection_->history()->info(), "tokens per expert"));
  spread_->setGroups(std::move(groups), "layer; line: least to most loaded expert, bar: 10 % to 90 %, notch: median");
  spread_->setCurrent(selection_->layer());
}

QStringList BalanceOfAllLayersPanel::describeLayer(int row, std::int64_t step) const {
  const History* history = selection_->history();
  const int layer = history->info().moe_layers[row];
  return {QString("%1 %2, layer %3").arg(selection_->stepWord(), formatCount(step)).arg(layer),
          QString("MaxVio %1 (batch), %2 (window)")
              .arg(formatValue(history->value_at(Metric::max_vio, layer, step), 3),
                   formatValue(history->value_at(Metric::max_vio_window, layer, step), 3))};
}

QStringList BalanceOfAllLayersPanel::describeSpread(int layer) const {
  const auto frame = selection_->frame();
  const RouterFrame* router = find_router(frame.get(), layer);
  if (!router) return {};
  const auto values = spreadOf(router->tokens_per_expert);
  return {QString("layer %1: utilisation of its experts").arg(layer),
          QString("most %1, least %2").arg(formatValue(values[4], 3), formatValue(values[0], 3)),
          QString("90 % %1, median %2, 10 % %3")
              .arg(formatValue(values[3], 3), formatValue(values[2], 3), formatValue(values[1], 3))};
}

QString BalanceOfAllLayersPanel::csv() const {
  if (view_->currentIndex() == over_time) return lines_->notice().isEmpty() ? lines_->csv() : QStringLiteral("step\n");
  QString text = view_->currentIndex() == by_layer
                     ? QStringLiteral("step,layer,MaxVio (batch),MaxVio (window)\n")
                     : QStringLiteral("step,layer,utilisation: least,10 %,median,90 %,most (1 = fair)\n");
  const History* history = selection_->history();
  if (!history || selection_->range().empty()) return text;
  if (view_->currentIndex() == within_layers) {
    const auto frame = selection_->frame();
    for (const RouterFrame& router : frame ? frame->routers : std::vector<RouterFrame>{}) {
      text += QStringLiteral("%1,%2").arg(frame->step).arg(router.layer);
      for (const float value : spreadOf(router.tokens_per_expert)) text += QStringLiteral(",%1").arg(value, 0, 'g', 7);
      text += QLatin1Char('\n');
    }
    return text;
  }
  const std::vector<std::int64_t> steps = history->steps_in(selection_->range());
  for (const int layer : history->info().moe_layers) {
    const auto batch = history->values_at(Metric::max_vio, layer, steps);
    const auto window = history->values_at(Metric::max_vio_window, layer, steps);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (!is_missing(batch[i])) text += csvRow(steps[i], layer, digits(batch[i], 7), digits(window[i], 7));
  }
  return text;
}

}  // namespace moescope
