#include "widgets/panel/figures_panel.h"

#include <fmt/core.h>

#include <QButtonGroup>
#include <algorithm>
#include <utility>

#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/panel/metric_text.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

enum { kMean, kChosen, kWorst };
constexpr std::int64_t kStepsBack = 1000;  // steps back in which an earlier value is searched
constexpr int kTileGap = 2;
const QString kDash = QStringLiteral("\u2013");  // no value
constexpr double kRoomAboveReference = 1.2;      // the value axis reaches so many times a reference

}  // namespace

FiguresPanel::FiguresPanel(Selection* selection, const QString& title, std::vector<Figure> figures, QWidget* parent)
    : Panel(selection, title, metric_info(figures.at(0).at(0)).provenance, parent), figures_(std::move(figures)) {
  layers_ = makeLayersChoice("mean of layers", "Layers");
  const bool knows_worst = std::ranges::any_of(
      figures_, [](const Figure& figure) { return metric_info(figure.front()).plot.worst.has_value(); });
  if (knows_worst) layers_->addItem("worst layer");
  layers_->setCurrentIndex(knows_worst ? kWorst : kMean);
  addControl(layers_);
  setProperty("shows_all_runs", true);

  tile_row_ = new QWidget(this);
  auto* tiles = plainRow(tile_row_, kTileGap);
  auto* group = new QButtonGroup(this);
  for (int i = 0; i < to_int(figures_.size()); ++i) {
    ValueTile* tile = addTile(i);
    group->addButton(tile, i);
    tiles->addWidget(tile);
  }
  addBody(tile_row_, 0);
  plot_ = new LinePlot(selection, this);
  plot_->refill = [this] { refill(); };
  plot_->setAccessibleName(title);
  plot_->setMinimumHeight(1);  // a panel that is too low hides it
  addBody(plot_);
  hideWhenLow(plot_);
  connect(group, &QButtonGroup::idClicked, this, [this](int figure) {
    chosen_ = true;
    showFigure(figure);
  });
  connect(selection, &Selection::dataChanged, this, [this] {
    showTilesWithData();
    showOneWithData();
  });
  connect(selection, &Selection::timeChanged, this, &FiguresPanel::followWorst);
  connect(selection, &Selection::layerChosen, this, [this] {
    if (showsWorst()) layers_->setCurrentIndex(kChosen);
  });
  connect(layers_, &QComboBox::currentIndexChanged, this, [this] {
    plot_->markDirty();
    for (ValueTile* tile : tiles_) tile->update();
  });
  showFigure(0);
  keepState(
      "figure", [this] { return chosen_ ? QVariant(shown_) : QVariant(); },
      [this](const QVariant& state) {
        chosen_ = state.isValid();
        showFigure(state.toInt());
        showOneWithData();
      });
  connect(selection, &Selection::dataChanged, this, [this] { window_run_ = nullptr; });
  keepState("layers", layers_);
  showTilesWithData();
  showOneWithData();
}

ValueTile* FiguresPanel::addTile(int figure) {
  const MetricInfo& info = metric_info(tileMetric(figure));
  auto* tile = new ValueTile(
      selection_, QString::fromUtf8(info.short_name), [this, figure] { return valueText(figure); }, tile_row_);
  tile->setCheckable(true);
  tile->setPlace([this, figure] { return placeText(figure); });
  tile->figure = [this, figure] {
    FigureTarget tile_target = target(metric_info(tileMetric(figure)));
    tile_target.layer = layerOf(figure);
    tile_target.uses_window = true;
    return tile_target;
  };
  tile->setToolTip(QString::fromUtf8(info.name));
  tiles_.push_back(tile);
  has_data_.push_back(true);
  return tile;
}

void FiguresPanel::setFiguresShown(bool shown) {
  setProperty("shows_all_runs", shown);
  hideWhenLow(shown ? plot_ : nullptr);
  layers_->setVisible(shown);
  tile_row_->setVisible(shown);
  plot_->setVisible(shown);
  if (shown) giveFocusTo(plot_);
}

bool FiguresPanel::hasFigures(const History& run) const {
  return std::ranges::any_of(figures_, [&](const Figure& figure) {
    return std::ranges::any_of(run.info().moe_layers, [&](int layer) {
      return !is_missing(run.value_at(figure.front(), layer, run.steps().last));
    });
  });
}

FigureTarget FiguresPanel::target(const MetricInfo& info) const {
  FigureTarget layer_target = Panel::target(info);
  const auto shows = [&](const Figure& figure) {
    return std::ranges::any_of(figure, [&](Metric metric) { return FigureKey(metric) == FigureKey(info); });
  };
  const auto found = std::ranges::find_if(figures_, shows);
  layer_target.layer = layerOf(found == figures_.end() ? 0 : to_int(found - figures_.begin()));
  return layer_target;
}

void FiguresPanel::showFigure(int figure) {
  shown_ = std::clamp(figure, 0, to_int(figures_.size()) - 1);
  tiles_[shown_]->setChecked(true);
  fitTiles();
  plot_->markDirty();
}

// Hides the tiles of figures that the run does not have. A figure without a present value is searched in earlier steps,
// but not again once none was found.
void FiguresPanel::showTilesWithData() {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return;
  const bool other = std::exchange(known_, history) != history;
  for (int i = 0; i < to_int(tiles_.size()); ++i) {
    const bool may_have_data = other || has_data_[i];
    has_data_[i] = whyNothing(i).isEmpty() || (may_have_data && olderStep(i) >= 0);
  }
  fitTiles();
}

// Shows as many tiles as the width has room for: the chosen one, then the others from the left.
void FiguresPanel::fitTiles() {
  int room = width() - 2 * kSpace12 - tiles_[shown_]->sizeHint().width();
  for (int i = 0; i < to_int(tiles_.size()); ++i) {
    if (i == shown_) continue;
    const int wanted_width = tiles_[i]->sizeHint().width() + kTileGap;
    const bool fits = has_data_[i] && wanted_width <= room;
    if (fits) room -= wanted_width;
    tiles_[i]->setVisible(fits);
  }
  tiles_[shown_]->show();
}

void FiguresPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  fitTiles();
}

// Shows the first figure that has data, since a log may lack some figures.
void FiguresPanel::showOneWithData() {
  const History* history = selection_->history();
  if (chosen_ || !history || history->steps().empty() || whyNothing(shown_).isEmpty()) return;
  for (int i = 0; i < to_int(tiles_.size()); ++i)
    if (whyNothing(i).isEmpty()) return showFigure(i);
}

QString FiguresPanel::whyNothing(int figure) const {
  const History* history = selection_->history();
  if (!is_missing(history->value_at(tileMetric(figure), layerOf(figure), history->steps().last))) return {};
  return notInLogNotice(history->info(), metricName(tileMetric(figure)).toLower());
}

bool FiguresPanel::showsWorst() const {
  return layers_->currentIndex() == kWorst;
}

int FiguresPanel::layerIn(const History& run, int figure) const {
  if (layers_->currentIndex() == kChosen) return selection_->layer();
  const Metric metric = tileMetric(figure);
  const std::optional<Worst> worst = metric_info(metric).plot.worst;
  if (!showsWorst() || !worst) return kWholeRun;
  const LayerWindow* worst_window = nullptr;  // CV and entropy are shown over the window of the verdict
  if (metric == Metric::cv) worst_window = windowOf(run).worst(&LayerWindow::cv);
  if (metric == Metric::entropy_norm) worst_window = windowOf(run).worst(&LayerWindow::entropy);
  const int layer =
      worst_window ? worst_window->layer : worst_layer(run, metric, selection_->shownStepOf(run), *worst).layer;
  return layer < 0 ? kWholeRun : layer;
}

const RouterWindow& FiguresPanel::windowOf(const History& run) const {
  const std::int64_t step = selection_->shownStepOf(run);
  if (window_run_ != &run || window_step_ != step) window_ = router_window(run, step);
  window_run_ = &run;
  window_step_ = step;
  return window_;
}

// Refills if another layer has become the worst.
void FiguresPanel::followWorst() {
  if (showsWorst() && drawn_layer_ != layerOf(shown_)) plot_->markDirty();
}

// Returns the step of the shown value; -1 if that is the cursor's step or there is no value. A log may have values at
// some steps only.
std::int64_t FiguresPanel::olderStep(int figure) const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return -1;
  const std::int64_t step = selection_->step();
  const std::vector<std::int64_t> before = history->steps_in(history->last_steps(kStepsBack + 1, step));
  const std::vector<float> values = history->values_at(tileMetric(figure), layerOf(figure), before);
  const auto last = std::find_if(values.rbegin(), values.rend(), [](float value) { return !is_missing(value); });
  if (last == values.rend()) return -1;
  const std::int64_t older_step = before[static_cast<std::size_t>(values.rend() - last) - 1];
  return older_step == step ? -1 : older_step;
}

QStringList FiguresPanel::placeText(int figure) const {
  const int layer = layerOf(figure);
  const QString place = layer == kWholeRun ? QString("mean of layers") : QString("layer %1").arg(layer);
  const QString at_short = layer == kWholeRun ? QString("mean") : place;
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return {place, at_short};
  const std::int64_t older = olderStep(figure);
  const Metric metric = tileMetric(figure);
  const bool is_together = !is_missing(window_value(*history, metric, layer, selection_->step()));
  const bool is_of_window = metric == Metric::max_vio_window || metric == Metric::dead_fraction || is_together;
  const std::int64_t length = is_together ? kWindowSteps : history->info().window;
  const std::int64_t step = older < 0 ? selection_->step() : older;
  const StepRange window = window_steps(*history, step, is_of_window ? length : 1);
  const QString steps = selection_->windowText(window);
  const QString separator = QStringLiteral(", ");
  const int loads = selection_->loadsIn(window);
  QStringList forms{place + separator + steps, at_short + separator + steps};
  const QString newest = "last " + (loads > 0 ? countedText(loads, "load") : QString::number(length));
  const QString shortest = is_of_window ? newest : steps;
  forms << at_short + separator + shortest << shortest;
  const QString text_of_others = textOfOthers(*selection_, [&](const History& run) {
    const QString value = valueIn(run, figure);
    return value == kDash ? QString() : value;
  });
  if (text_of_others.isEmpty()) return forms;
  return QStringList{forms.front() + "; " + text_of_others, forms.back() + "; " + text_of_others, text_of_others} +
         forms;
}

// Adds the curve of each other run, behind those of the active run.
void FiguresPanel::addOtherRuns(std::vector<LineSeries>& series) const {
  for (int run = 0; run < std::ssize(selection_->histories()); ++run) {
    const auto& history = selection_->histories()[run];
    if (run == selection_->run() || selection_->isNoiseTwin(run) || history->steps().empty()) continue;
    const int layer = layerIn(*history, shown_);
    if (history->has_values(tileMetric(shown_), layer))
      series.push_back(
          {history, tileMetric(shown_), layer, runLetter(*selection_, run), runColor(*selection_, run), 0});
  }
}

void FiguresPanel::refill() {
  if (!hasSteps(plot_)) return;
  if (plot_->showsNotice(whyNothing(shown_))) return;
  const Figure& figure = figures_[shown_];
  const MetricInfo& info = metric_info(figure.front());
  const auto& active = selection_->histories()[selection_->run()];
  const int layer = drawn_layer_ = layerOf(shown_);
  double high = info.plot.high;
  std::vector<LineSeries> series;
  std::vector<ReferenceLine> references;
  addOtherRuns(series);
  const bool is_alone = series.empty();
  for (auto metric = figure.rbegin(); metric != figure.rend(); ++metric) {  // the first is drawn over the others
    const int color = curveColor(*selection_, to_int(figure.rend() - metric) - 1);
    const MetricInfo& curve = metric_info(*metric);
    if (*metric != figure.front() && !active->has_values(*metric, layer)) continue;
    QString label = QString::fromUtf8(figure.size() > 1 ? curve.name : curve.short_name);
    // A narrow plot has room for one word: "window" of "MaxVio (window)", "entropy" of "Score entropy".
    if (figure.size() > 1) label = label.section(u' ', -1).remove(u'(').remove(u')');
    if (!is_alone) label.prepend(runLetter(*selection_, selection_->run()) + QLatin1Char(' '));
    series.push_back({active, *metric, layer, label, color, 0});
    for (const FigureReference& reference : curve.plot.references) {
      const double value = reference.label ? reference.value(active->info()) : NAN;
      if (std::isnan(value)) continue;
      references.push_back({value, QString("%1 %2").arg(reference.label, formatValue(value, 3))});
      high = std::max(high, kRoomAboveReference * value);
    }
  }
  QString caption = series.size() > 1 ? QString::fromUtf8(info.short_name) : metricCaption(figure.front());
  if (!is_missing(window_value(*active, figure.front(), layer, selection_->step()))) caption += " of each batch";
  if (showsWorst() && layer != kWholeRun)
    caption += is_alone ? QString(", layer %1").arg(layer) : QString(", worst layer");
  plot_->setCaption(caption);
  plot_->setPercent(metricIsShare(figure.front()));
  plot_->setAtLeastShown(info.plot.low, high);
  plot_->setReferences(std::move(references));
  plot_->setSeries(std::move(series));
}

QString FiguresPanel::layersText() const {
  if (showsWorst()) return QString("worst layer");
  return layers_->currentIndex() == kChosen ? QString("layer %1").arg(selection_->layer()) : QString("mean of layers");
}

QString FiguresPanel::status() const {
  const QString when = timeStatus(selection_->step(), false);
  return when.isEmpty() ? layersText() : when + QStringLiteral(", ") + layersText();
}

QString FiguresPanel::valueIn(const History& run, int figure) const {
  if (run.steps().empty()) return kDash;
  const Metric metric = tileMetric(figure);
  const int layer = layerIn(run, figure);
  const std::int64_t step = selection_->shownStepOf(run);
  float value = window_value(run, metric, layer, step);
  if (is_missing(value)) value = run.value_at(metric, layer, step);
  if (is_missing(value)) return kDash;
  if (metric == Metric::score_entropy) return QString("%1 nats").arg(formatValue(value, 3));
  return metricIsShare(metric) ? formatPercent(value) : formatValue(value, 3);
}

// A row for each step of the range, a column for each curve.
ValueTable FiguresPanel::table() const {
  const History* history = selection_->history();
  const std::vector<std::int64_t> steps =
      history ? history->steps_in(selection_->range()) : std::vector<std::int64_t>();
  std::vector<ValueColumn> columns{{"step"}};
  std::vector<std::vector<PyramidBin>> values;
  for (int i = 0; i < to_int(figures_.size()); ++i) {
    const int layer = layerOf(i);
    for (const Metric metric : figures_[i]) {
      columns.push_back(columnOf(metric_info(metric)));
      columns.back().name += layer == kWholeRun ? ", mean of layers" : fmt::format(", layer {}", layer);
      if (!steps.empty()) values.push_back(history->series(metric, layer, edges_of(steps)));
    }
  }
  ValueTable table(std::move(columns));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<TableValue> row{steps[i]};
    for (const auto& column : values) row.push_back(table_value(column[i]));
    table.add_row(row);
  }
  return table;
}

QString FiguresPanel::explain() const {
  QString cards;
  for (const Figure& figure : figures_)
    for (const Metric metric : figure) cards += metricCard(metric_info(metric));
  return explanation().replace("{figures}", cards);
}

}  // namespace moescope
