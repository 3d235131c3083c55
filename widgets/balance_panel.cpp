#include "widgets/balance_panel.h"

#include <QButtonGroup>
#include <QGridLayout>
#include <algorithm>

#include "core/telemetry/router_stats.h"
#include "widgets/metric_text.h"

namespace moescope {
namespace {

constexpr int kLeastPlotHeight = 88, kLeastPlotWidth = 215;
constexpr int kStepLabels = 28;  // what the lowest row needs more than the others

struct Figure {
  const char* name;
  const char* caption;
  std::vector<std::pair<Metric, const char*>> curves;
};

const std::array<Figure, BalancePanel::kFigures>& figures() {
  static const std::array<Figure, BalancePanel::kFigures> all = {{
      {QT_TR_NOOP("MaxVio"), "MaxVio", {{Metric::max_vio, "batch"}, {Metric::max_vio_window, "window"}}},
      {QT_TR_NOOP("CV"), "CV", {{Metric::cv, "CV"}}},
      {QT_TR_NOOP("Entropy"), "load entropy", {{Metric::entropy_norm, "H / ln E"}}},
      {QT_TR_NOOP("Dead"), "dead experts", {{Metric::dead_fraction, "dead in window"}}},
  }};
  return all;
}

}  // namespace

BalancePanel::BalancePanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Balance"), Provenance::measured, parent) {
  layers_ = new QComboBox(this);
  layers_->addItems({tr("mean of layers"), tr("chosen layer")});
  layers_->setAccessibleName(tr("Layers"));
  addControl(layers_);

  auto* row = new QWidget(this);
  auto* tiles = new QHBoxLayout(row);
  tiles->setContentsMargins(0, 0, 0, 0);
  tiles->setSpacing(2);
  auto* group = new QButtonGroup(this);
  for (int i = 0; i <= kFigures; ++i) {
    const QString name = i < kFigures ? tr(figures()[i].name) : tr("All");
    tiles_[i] = new ValueTile(
        selection, name, [this, i] { return valueText(i); }, row);
    tiles_[i]->setCheckable(true);
    if (i == 0) tiles_[i]->setToolTip(tr("MaxVio of the batch, of the window"));
    if (i == kFigures) tiles_[i]->setToolTip(tr("As many of the four plots as there is room for"));
    group->addButton(tiles_[i], i);
    tiles->addWidget(tiles_[i], i == 0 ? 4 : i == 2 ? 3 : 2);
  }
  addBody(row, 0);

  body_ = new QWidget(this);
  for (int i = 0; i < kFigures; ++i) {
    plots_[i] = new LinePlot(selection, body_);
    plots_[i]->refill = [this, i] { refill(i); };
    plots_[i]->setAccessibleName(tr(figures()[i].name));
  }
  addBody(body_);
  connect(group, &QButtonGroup::idClicked, this, &BalancePanel::showFigure);
  connect(layers_, &QComboBox::currentIndexChanged, this, [this] {
    for (LinePlot* plot : plots_) plot->markDirty();
    for (ValueTile* tile : tiles_) tile->update();
  });
  showFigure(0);
}

void BalancePanel::showFigure(int figure) {
  shown_ = std::clamp(figure, 0, kFigures);
  tiles_[shown_]->setChecked(true);
  arrange();
}

void BalancePanel::setOneLayer(bool one) {
  layers_->setCurrentIndex(one ? 1 : 0);
}

int BalancePanel::layer() const {
  return layers_->currentIndex() == 1 ? selection_->layer() : kWholeRun;
}

// One figure, or as many as keep a readable size, side by side and stacked.
void BalancePanel::arrange() {
  const bool all = shown_ == kFigures;
  const int columns = all && body_->width() >= 2 * kLeastPlotWidth ? 2 : 1;
  const int fit = std::clamp((body_->height() - kStepLabels) / kLeastPlotHeight, 1, kFigures) * columns;
  const int count = all ? std::min(kFigures, fit) : 1;
  const int rows = (count + columns - 1) / columns;
  for (int i = 0, place = 0; i < kFigures; ++i) {
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

void BalancePanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  QMetaObject::invokeMethod(
      this, [this] { arrange(); }, Qt::QueuedConnection);  // after the layout
}

void BalancePanel::refill(int figure) {
  LinePlot* plot = plots_[figure];
  const History* history = selection_->history();
  if (!history) return plot->setNotice(noRunNotice());
  if (history->steps().empty()) return plot->setNotice(noDataYetNotice());
  plot->setNotice({});
  const auto& active = selection_->histories()[selection_->run()];
  std::vector<LineSeries> series;
  int color = static_cast<int>(figures()[figure].curves.size()) - 1;
  for (const auto& [metric, label] : figures()[figure].curves)
    series.push_back({active, metric, layer(), tr(label), color--, 0});
  const Metric metric = figures()[figure].curves[0].first;
  plot->setCaption(tr(figures()[figure].caption));
  plot->setPercent(metricIsShare(metric));
  std::vector<ReferenceLine> references;
  if (metric == Metric::max_vio) {
    const RunInfo& info = history->info();
    if (info.tokens_per_step > 0 && info.top_k > 0 && info.n_experts > 1) {
      const double floor = max_vio_noise_floor(info.tokens_per_step, info.top_k, info.n_experts);
      references.push_back({floor, tr("chance %1").arg(formatValue(floor, 2))});
      plot->setAtLeastShown(0, 1.2 * floor);
    }
  } else if (metric == Metric::dead_fraction) {
    plot->setAtLeastShown(0, 0.01);
  } else if (metric == Metric::cv) {
    plot->setAtLeastShown(0, 0.1);
  } else {
    plot->setAtLeastShown(1, 1);
  }
  plot->setReferences(std::move(references));
  plot->setSeries(std::move(series));
}

QString BalancePanel::status() const {
  const QString where = layer() == kWholeRun ? tr("mean of layers") : tr("layer %1").arg(layer());
  const QString when = timeStatus(selection_->step(), false);
  return when.isEmpty() ? where : when + QStringLiteral(", ") + where;
}

QString BalancePanel::valueText(int figure) const {
  const History* history = selection_->history();
  if (figure == kFigures) return QString::number(int{kFigures});
  if (!history || history->steps().empty()) return tr("no data");
  QStringList texts;
  for (const auto& [metric, label] : figures()[figure].curves) {
    const double value = history->value_at(metric, layer(), selection_->step());
    texts << (metricIsShare(metric) ? formatPercent(value) : formatValue(value, 3));
  }
  return texts.join(QStringLiteral(", "));
}

QString BalancePanel::csv() const {
  QString text = QStringLiteral("step,layer");
  for (const Figure& figure : figures())
    for (const auto& [metric, label] : figure.curves) text += QStringLiteral(",\"%1\"").arg(metricCaption(metric));
  text += QLatin1Char('\n');
  const History* history = selection_->history();
  const StepRange range = selection_->range();
  if (!history || range.empty()) return text;
  std::vector<std::vector<PyramidBin>> columns;
  for (const Figure& figure : figures())
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

QString BalancePanel::explain() const {
  QString text =
      tr("<p><b>How even the load is.</b> The dashed line is what a perfectly balanced router shows by chance "
         "alone in one batch of this size.</p>");
  for (const Figure& figure : figures())
    for (const auto& [metric, label] : figure.curves) text += metricCard(metric_info(metric));
  return text +
         tr("<p><b>Reading it.</b> Batch high and window low: sampling noise or an oscillating bias, not collapse. "
            "Both high: the same experts are hot all the time.</p>");
}

QVariantMap BalancePanel::saveState() const {
  return {{QStringLiteral("figure"), shown_}, {QStringLiteral("one_layer"), layers_->currentIndex()}};
}

void BalancePanel::restoreState(const QVariantMap& state) {
  showFigure(state.value(QStringLiteral("figure")).toInt());
  layers_->setCurrentIndex(std::clamp(state.value(QStringLiteral("one_layer")).toInt(), 0, 1));
}

}  // namespace moescope
