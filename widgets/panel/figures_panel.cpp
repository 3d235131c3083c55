#include "widgets/panel/figures_panel.h"

#include <QButtonGroup>
#include <algorithm>

#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

constexpr int kLeastPlotHeight = 88, kLeastPlotWidth = 215;
constexpr int kStepLabels = 28;  // what the lowest row needs more than the others

}  // namespace

FiguresPanel::FiguresPanel(Selection* selection, const QString& title, std::vector<Figure> figures, QWidget* parent)
    : Panel(selection, title, metric_info(figures.at(0).curves.at(0).first).provenance, parent),
      figures_(std::move(figures)) {
  layers_ = new QComboBox(this);
  layers_->addItems({tr("mean of layers"), tr("chosen layer")});
  layers_->setAccessibleName(tr("Layers"));
  addControl(layers_);

  auto* row = new QWidget(this);
  auto* tiles = new QHBoxLayout(row);
  tiles->setContentsMargins(0, 0, 0, 0);
  tiles->setSpacing(2);
  auto* group = new QButtonGroup(this);
  const int count = static_cast<int>(figures_.size());
  for (int i = 0; i <= count; ++i) {
    const bool all = i == count;
    auto* tile = new ValueTile(
        selection, all ? tr("All") : figures_[i].name, [this, i] { return valueText(i); }, row);
    tile->setCheckable(true);
    if (!all)
      tile->figure = [this, i] { return target(metric_info(figures_[static_cast<std::size_t>(i)].curves[0].first)); };
    tile->setToolTip(all ? tr("All of the %1 plots that fit").arg(count) : figures_[i].hint);
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
  connect(group, &QButtonGroup::idClicked, this, &FiguresPanel::showFigure);
  connect(layers_, &QComboBox::currentIndexChanged, this, [this] {
    for (LinePlot* plot : plots_) plot->markDirty();
    for (ValueTile* tile : tiles_) tile->update();
  });
  showFigure(0);
}

FigureTarget FiguresPanel::target(const MetricInfo& info) const {
  FigureTarget of_layer = Panel::target(info);
  of_layer.layer = layer();
  return of_layer;
}

void FiguresPanel::showFigure(int figure) {
  shown_ = std::clamp(figure, 0, static_cast<int>(plots_.size()));
  tiles_[shown_]->setChecked(true);
  arrange();
}

int FiguresPanel::layer() const {
  return layers_->currentIndex() == 1 ? selection_->layer() : kWholeRun;
}

// One figure, or as many as keep a readable size, side by side and stacked.
void FiguresPanel::arrange() {
  const int figures = static_cast<int>(plots_.size());
  const bool all = shown_ == figures;
  const int columns = all && body_->width() >= 2 * kLeastPlotWidth ? 2 : 1;
  const int fit = std::clamp((body_->height() - kStepLabels) / kLeastPlotHeight, 1, figures) * columns;
  const int count = all ? std::min(figures, fit) : 1;
  const int rows = (count + columns - 1) / columns;
  for (int i = 0, place = 0; i < figures; ++i) {
    const bool shown = all ? place < count : i == shown_;
    plots_[i]->setVisible(shown);
    if (!shown) continue;
    const int row = place / columns, column = place % columns;
    const int x = column * body_->width() / columns, each = (body_->height() - kStepLabels) / rows;
    const int height = row + 1 < rows ? each : body_->height() - row * each;
    plots_[i]->setGeometry(x, row * each, (column + 1) * body_->width() / columns - x, height);
    plots_[i]->setStepLabelsShown(place + columns >= count);
    ++place;
  }
}

void FiguresPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  QMetaObject::invokeMethod(
      this, [this] { arrange(); }, Qt::QueuedConnection);  // after the layout
}

void FiguresPanel::refill(int figure) {
  LinePlot* plot = plots_[figure];
  const History* history = selection_->history();
  if (!history) return plot->setNotice(noRunNotice());
  if (history->steps().empty()) return plot->setNotice(noDataYetNotice());
  plot->setNotice(whyNothing(figure));
  if (!plot->notice().isEmpty()) return;
  const auto& active = selection_->histories()[selection_->run()];
  std::vector<LineSeries> series;
  int color = static_cast<int>(figures_[figure].curves.size()) - 1;
  for (const auto& [metric, label] : figures_[figure].curves)
    series.push_back({active, metric, layer(), label, color--, 0});
  plot->setCaption(figures_[figure].caption);
  plot->setPercent(metricIsShare(figures_[figure].curves[0].first));
  std::vector<ReferenceLine> references;
  decorate(figure, plot, &references);
  plot->setReferences(std::move(references));
  plot->setSeries(std::move(series));
}

QString FiguresPanel::status() const {
  const QString where = layer() == kWholeRun ? tr("mean of layers") : tr("layer %1").arg(layer());
  const QString when = timeStatus(selection_->step(), false);
  return when.isEmpty() ? where : when + QStringLiteral(", ") + where;
}

QString FiguresPanel::valueText(int figure) const {
  const History* history = selection_->history();
  if (figure == static_cast<int>(figures_.size())) return QString::number(figures_.size());
  if (!history || history->steps().empty()) return tr("no data");
  QStringList texts;
  for (const auto& [metric, label] : figures_[figure].curves) {
    const float value = history->value_at(metric, layer(), selection_->step());
    texts << (is_missing(value)       ? QStringLiteral("-")
              : metricIsShare(metric) ? formatPercent(value)
                                      : formatValue(value, 3));
  }
  return texts.join(QStringLiteral(", "));
}

QString FiguresPanel::csv() const {
  QString text = QStringLiteral("step,layer");
  for (const Figure& figure : figures_)
    for (const auto& [metric, label] : figure.curves) text += QStringLiteral(",\"%1\"").arg(metricCaption(metric));
  text += QLatin1Char('\n');
  const History* history = selection_->history();
  const StepRange range = selection_->range();
  if (!history || range.empty()) return text;
  std::vector<std::vector<PyramidBin>> columns;
  for (const Figure& figure : figures_)
    for (const auto& [metric, label] : figure.curves)
      columns.push_back(history->series(metric, layer(), range, static_cast<int>(range.size())));
  for (int i = 0; i < range.size(); ++i) {
    text += QString::number(range.first + i) +
            (layer() == kWholeRun ? QStringLiteral(",mean") : QStringLiteral(",%1").arg(layer()));
    for (const auto& column : columns)
      text += QLatin1Char(',') + (column[i].finite > 0 ? QString::number(column[i].mean(), 'g', 7) : QString());
    text += QLatin1Char('\n');
  }
  return text;
}

QString FiguresPanel::figureCards() const {
  QString text;
  for (const Figure& figure : figures_)
    for (const auto& [metric, label] : figure.curves) text += metricCard(metric_info(metric));
  return text;
}

QVariantMap FiguresPanel::saveState() const {
  return {{QStringLiteral("figure"), shown_}, {QStringLiteral("one_layer"), layers_->currentIndex()}};
}

void FiguresPanel::restoreState(const QVariantMap& state) {
  showFigure(state.value(QStringLiteral("figure")).toInt());
  layers_->setCurrentIndex(std::clamp(state.value(QStringLiteral("one_layer")).toInt(), 0, 1));
}

}  // namespace moescope
