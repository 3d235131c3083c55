#include "widgets/panel/figures_panel.h"

#include <QButtonGroup>
#include <algorithm>
#include <utility>

#include "widgets/look/layouts.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

constexpr int kLeastPlotHeight = 88, kLeastPlotWidth = 215;
constexpr int kStepLabels = 28;  // height that the lowest row needs for the labels of steps
enum { kMean, kChosen, kWorst };
constexpr std::int64_t kStepsBack = 1000;  // steps back in which an earlier value is searched

}  // namespace

FiguresPanel::FiguresPanel(Selection* selection, const QString& title, std::vector<Figure> figures, QWidget* parent)
    : Panel(selection, title, metric_info(figures.at(0).curves.at(0).first).provenance, parent),
      figures_(std::move(figures)) {
  layers_ = makeChoice({"mean of layers", "chosen layer"}, "Layers");
  const bool knows_worst = std::ranges::any_of(figures_, [](const Figure& figure) { return figure.worst.has_value(); });
  if (knows_worst) layers_->addItem("worst layer");
  layers_->setCurrentIndex(knows_worst ? kWorst : kMean);
  addControl(layers_);

  auto* row = new QWidget(this);
  auto* tiles = plainRow(row, 2);
  auto* group = new QButtonGroup(this);
  const int count = static_cast<int>(figures_.size());
  for (int i = 0; i <= count; ++i) {
    const bool all = i == count;
    auto* tile = new ValueTile(
        selection, all ? QString("All") : figures_[i].name, [this, i] { return valueText(i); }, row);
    tile->setCheckable(true);
    if (!all) tile->setShortName(figures_[i].short_name);
    if (!all) tile->setPlace([this, i] { return placeText(i); });
    if (!all)
      tile->figure = [this, i] {
        FigureTarget of_tile = target(metric_info(tileMetric(i)));
        of_tile.layer = layerOf(i);
        return of_tile;
      };
    tile->setToolTip(all ? QString("As many of the plots as fit") : figures_[i].hint);
    group->addButton(tile, i);
    tiles->addWidget(tile, all ? 2 : figures_[i].room);
    tiles_.push_back(tile);
  }
  addBody(row, 0);

  body_ = new QWidget(this);
  for (int i = 0; i < count; ++i) {
    plots_.push_back(new LinePlot(selection, body_));
    plots_[i]->refill = [this, i] { refill(i); };
    plots_[i]->setAccessibleName(figures_[i].name);
  }
  addBody(body_);
  hideWhenLow(body_);
  drawn_layers_.assign(plots_.size(), kWholeRun);
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
    for (LinePlot* plot : plots_) plot->markDirty();
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
  keepState("layers", layers_);
}

FigureTarget FiguresPanel::target(const MetricInfo& info) const {
  FigureTarget of_layer = Panel::target(info);
  const auto shows = [&](const Figure& figure) {
    return std::ranges::any_of(figure.curves,
                               [&](const auto& curve) { return FigureKey(curve.first) == FigureKey(info); });
  };
  const auto found = std::ranges::find_if(figures_, shows);
  of_layer.layer = layerOf(found == figures_.end() ? 0 : static_cast<int>(found - figures_.begin()));
  return of_layer;
}

void FiguresPanel::showFigure(int figure) {
  shown_ = std::clamp(figure, 0, static_cast<int>(plots_.size()));
  tiles_[shown_]->setChecked(true);
  arrange();
}

// Hides the tiles of figures that the run does not have. A figure without a present value is searched in earlier steps,
// but not again once its tile is hidden.
void FiguresPanel::showTilesWithData() {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return;
  const bool other = std::exchange(known_, history) != history;
  for (int i = 0; i < static_cast<int>(plots_.size()); ++i) {
    const bool now = whyNothing(i).isEmpty();
    const bool before = !now && (other || !tiles_[i]->isHidden()) && olderStep(i) >= 0;
    tiles_[i]->setVisible(now || before || i == shown_);
  }
}

Metric FiguresPanel::tileMetric(int figure) const {
  const Figure& of = figures_[figure];
  return of.curves[of.told].first;
}

// Shows the first figure that has data, since a log may lack some figures.
void FiguresPanel::showOneWithData() {
  const History* history = selection_->history();
  if (chosen_ || !history || history->steps().empty() || whyNothing(shown_).isEmpty()) return;
  for (int i = 0; i < static_cast<int>(plots_.size()); ++i)
    if (whyNothing(i).isEmpty()) return showFigure(i);
}

bool FiguresPanel::showsWorst() const {
  return layers_->currentIndex() == kWorst;
}

int FiguresPanel::layerOf(int figure) const {
  const History* history = selection_->history();
  if (layers_->currentIndex() == kChosen) return selection_->layer();
  const Figure& of = figures_[figure];
  if (!showsWorst() || !history || !of.worst) return kWholeRun;
  const int layer = worst_layer(*history, of.curves.back().first, selection_->step(), *of.worst).layer;
  return layer < 0 ? kWholeRun : layer;
}

// Refills if another layer has become the worst.
void FiguresPanel::followWorst() {
  if (!showsWorst()) return;
  for (std::size_t i = 0; i < plots_.size(); ++i)
    if (plots_[i]->isVisible() && drawn_layers_[i] != layerOf(static_cast<int>(i))) plots_[i]->markDirty();
}

// Returns the step of the shown value; -1 if that is the cursor's step or there is no value. A log may have values at
// some steps only.
std::int64_t FiguresPanel::olderStep(int figure) const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return -1;
  const Metric metric = figures_[figure].curves.front().first;
  const std::int64_t step = selection_->step();
  const std::vector<std::int64_t> before = history->steps_in(history->last_steps(kStepsBack + 1, step));
  const std::vector<float> values = history->values_at(metric, layerOf(figure), before);
  const auto last = std::find_if(values.rbegin(), values.rend(), [](float value) { return !is_missing(value); });
  if (last == values.rend()) return -1;
  const std::int64_t of = before[static_cast<std::size_t>(values.rend() - last) - 1];
  return of == step ? -1 : of;
}

QStringList FiguresPanel::placeText(int figure) const {
  const int layer = layerOf(figure);
  const QString of = layer == kWholeRun ? QString("mean of layers") : QString("layer %1").arg(layer);
  const QString at_short = layer == kWholeRun ? QString("mean") : QString("L%1").arg(layer);
  const std::int64_t older = olderStep(figure);
  if (older < 0) return {of, at_short};
  const QString step = QString("step %1").arg(formatCount(older));
  return {of + QStringLiteral(", ") + step, at_short + QStringLiteral(", ") + step, step, formatCount(older)};
}

// Arranges one figure, or as many as keep a readable size in one or two columns.
void FiguresPanel::arrange() {
  const bool all = shown_ == static_cast<int>(plots_.size());
  std::vector<LinePlot*> shown;
  for (std::size_t i = 0; i < plots_.size(); ++i) {
    const bool wanted = all ? !tiles_[i]->isHidden() : static_cast<int>(i) == shown_;
    if (wanted) shown.push_back(plots_[i]);
  }
  const int step_labels = withType(kStepLabels, fontMetrics()), width = body_->width();
  const std::size_t columns = all && width >= 2 * withType(kLeastPlotWidth, fontMetrics()) ? 2 : 1;
  const int fit = (body_->height() - step_labels) / withType(kLeastPlotHeight, fontMetrics());
  shown.resize(std::min(shown.size(), static_cast<std::size_t>(std::max(1, fit)) * columns));
  const int rows = static_cast<int>((shown.size() + columns - 1) / columns);
  for (LinePlot* plot : plots_) plot->setVisible(std::ranges::find(shown, plot) != shown.end());
  for (std::size_t place = 0; place < shown.size(); ++place) {
    const int row = static_cast<int>(place / columns), column = static_cast<int>(place % columns);
    const int count = static_cast<int>(columns), each = (body_->height() - step_labels) / rows;
    const int x = column * width / count, height = row + 1 < rows ? each : body_->height() - row * each;
    shown[place]->setGeometry(x, row * each, (column + 1) * width / count - x, height);
    shown[place]->setStepLabelsShown(place + columns >= shown.size());
  }
}

void FiguresPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  QMetaObject::invokeMethod(
      this,
      [this] {
        showTilesWithData();
        arrange();
      },
      Qt::QueuedConnection);  // runs after the layout
}

void FiguresPanel::refill(int figure) {
  LinePlot* plot = plots_[figure];
  if (!hasSteps(plot)) return;
  plot->setNotice(whyNothing(figure));
  if (!plot->notice().isEmpty()) return;
  const auto& active = selection_->histories()[selection_->run()];
  std::vector<LineSeries> series;
  const int layer = drawn_layers_[figure] = layerOf(figure);
  int color = static_cast<int>(figures_[figure].curves.size()) - 1;
  for (const auto& [metric, label] : figures_[figure].curves)
    series.push_back({active, metric, layer, label, color--, 0});
  plot->setCaption(showsWorst() && layer != kWholeRun ? QString("%1, layer %2").arg(figures_[figure].caption).arg(layer)
                                                      : figures_[figure].caption);
  plot->setPercent(metricIsShare(figures_[figure].curves[0].first));
  std::vector<ReferenceLine> references;
  decorate(figure, plot, &references);
  plot->setReferences(std::move(references));
  plot->setSeries(std::move(series));
}

QString FiguresPanel::status() const {
  const QString where = showsWorst()                         ? QString("worst layer")
                        : layers_->currentIndex() == kChosen ? QString("layer %1").arg(selection_->layer())
                                                             : QString("mean of layers");
  const QString when = timeStatus(selection_->step(), false);
  return when.isEmpty() ? where : when + QStringLiteral(", ") + where;
}

QString FiguresPanel::valueText(int figure) const {
  const History* history = selection_->history();
  if (figure == static_cast<int>(figures_.size()))
    return QString::number(
        std::count_if(tiles_.begin(), tiles_.end() - 1, [](auto* tile) { return !tile->isHidden(); }));
  if (!history || history->steps().empty()) return QString("no data");
  const Metric metric = tileMetric(figure);
  const float value = history->value_at(metric, layerOf(figure), selection_->step());
  if (is_missing(value)) return QStringLiteral("\u2013");
  return metricIsShare(metric) ? formatPercent(value) : formatValue(value, 3);
}

QString FiguresPanel::csv() const {
  QString text = QStringLiteral("step,layer");
  const History* history = selection_->history();
  const std::vector<std::int64_t> steps =
      history ? history->steps_in(selection_->range()) : std::vector<std::int64_t>();
  const std::vector<std::int64_t> edges = edges_of(steps);
  std::vector<std::vector<PyramidBin>> columns;
  for (std::size_t figure = 0; figure < figures_.size(); ++figure) {
    const int layer = layerOf(static_cast<int>(figure));
    const QString of = showsWorst() && layer != kWholeRun ? QString(", layer %1").arg(layer) : QString();
    for (const auto& [metric, label] : figures_[figure].curves) {
      text += QStringLiteral(",\"%1%2\"").arg(metricCaption(metric), of);
      if (history && !steps.empty()) columns.push_back(history->series(metric, layer, edges));
    }
  }
  text += QLatin1Char('\n');
  const QString layer = showsWorst()                         ? QStringLiteral("worst")
                        : layers_->currentIndex() == kChosen ? QString::number(selection_->layer())
                                                             : QStringLiteral("mean");
  for (std::size_t i = 0; !columns.empty() && i < steps.size(); ++i) {
    text += QString::number(steps[i]) + QLatin1Char(',') + layer;
    for (const auto& column : columns)
      text += QLatin1Char(',') + (column[i].finite > 0 ? QString::number(column[i].mean(), 'g', 7) : QString());
    text += QLatin1Char('\n');
  }
  return text;
}

QString FiguresPanel::explain() const {
  QString cards;
  for (const Figure& figure : figures_)
    for (const auto& [metric, label] : figure.curves) cards += metricCard(metric_info(metric));
  return explanation().replace("{figures}", cards);
}

}  // namespace moescope
