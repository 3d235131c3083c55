#include "widgets/router/layer_stack_map.h"

#include <QPainter>
#include <algorithm>
#include <numeric>

namespace moescope {
namespace {

constexpr int kMinLayer = 72;              // least height of a layer that has room for name, MaxVio and some experts
constexpr int kLayerBarsWidth = 150;       // width of the bars with their figures
constexpr int kLayerBarFigure = 40;        // part of this width for the figure beside the longest bar
constexpr int kMinWidthOfLayerBars = 460;  // width of the widget from which bars are shown
constexpr double kMinBarScale = 2;         // smallest end of the scale of bars, in fair shares

}  // namespace

LayerStackMap::LayerStackMap(Selection* selection, QWidget* parent) : TimeHeatMap(selection, parent) {
  setLegendElsewhere();
  legend_rows_ = 1;
}

void LayerStackMap::setLayers(std::vector<int> layers, int experts, const std::vector<std::vector<int>>& orders) {
  layers_ = std::move(layers);
  experts_ = experts;
  orders_ = orders;
  right_margin_ = showsBars() ? withType(kLayerBarsWidth) + kSpace16 : kSpace12;
  std::vector<int> order(rowCount());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t l = 0; l < orders_.size(); ++l)
    for (std::size_t place = 0; place < orders_[l].size(); ++place)
      order[l * block() + place] = to_int(l) * block() + orders_[l][place];
  setRowOrder(std::move(order));
}

int LayerStackMap::rowOf(int layer, int expert) const {
  const auto found = std::ranges::find(layers_, layer);
  if (found == layers_.end() || expert < 0 || expert >= experts_) return -1;
  return to_int(found - layers_.begin()) * block() + expert;
}

int LayerStackMap::layerAt(int row) const {
  const int at = row / block();
  return row < 0 || at >= std::ssize(layers_) || row % block() >= experts_ ? -1 : layers_[at];
}

int LayerStackMap::placeOfExpert(std::size_t layer, int expert) const {
  if (layer >= orders_.size() || orders_[layer].empty()) return expert;
  const auto found = std::ranges::find(orders_[layer], expert);
  return to_int(found - orders_[layer].begin());
}

int LayerStackMap::mostLayers(int layers) const {
  return std::clamp(height() / withType(kMinLayer), 1, std::max(1, layers));
}

bool LayerStackMap::showsBars() const {
  return width() >= withType(kMinWidthOfLayerBars);
}

int LayerStackMap::nameWidth() const {
  const QFontMetrics bold(semibold(font()));
  return std::max(bold.horizontalAdvance(QString("Layer %1").arg(layers_.empty() ? 0 : layers_.back())),
                  fontMetrics().horizontalAdvance("MaxVio")) +
         kSpace12;
}

QMargins LayerStackMap::margins() const {
  QMargins around = TimeHeatMap::margins();
  around.setRight(right_margin_);
  return around;
}

// Returns the distance between labelled experts.
int LayerStackMap::expertTickStep() const {
  const double row = layers_.empty() ? 1 : (bottomOf(0) - topOf(0)) / experts_;
  return labelStride(fontMetrics().height() * 1.4, row, experts_);
}

void LayerStackMap::paintStatic(QPainter& painter) {
  paintStepAxis(painter);
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  const int step = expertTickStep(), line = metrics.height();
  const int widest = metrics.horizontalAdvance(QString::number(experts_)) + kSpace12;
  std::vector<Tick> labels;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const bool by_number = l >= orders_.size() || orders_[l].empty();
    const auto label = [&](int expert) {
      // A label stays above the labels of the steps.
      const double y = std::min(yOf(static_cast<double>(l) * block() + expert + 0.5), plot.bottom() + 2 - line / 2.0);
      labels.push_back({y, QString::number(expert)});
    };
    // The last expert has a label, too, unless the first one of the next layer is close to it.
    const bool labels_last = layers_.size() == 1 || topOf(1) - bottomOf(0) >= line;
    const int end = labels_last ? experts_ - 1 - 3 * step / 4 : experts_;
    for (int expert = 0; by_number && expert < end; expert += step) label(expert);
    if (by_number && labels_last) label(experts_ - 1);
    const QFont usual = painter.font();
    painter.setFont(semibold(usual));
    painter.setPen(palette().text().color());
    painter.drawText(QPointF(0, topOf(l) + metrics.ascent()), QString("Layer %1").arg(layers_[l]));
    painter.setFont(usual);
  }
  paintRowLabels(painter, labels, plot.left() - kSpace8);
  paintLeftCaption(painter, nameWidth() + widest, "expert");
  paintScale(painter);
}

// Clears the rows between two layers.
void LayerStackMap::paintData(QPainter& painter) {
  TimeHeatMap::paintData(painter);
  const QRect plot = plotRect();
  for (std::size_t l = 0; l + 1 < layers_.size(); ++l)
    painter.fillRect(QRectF(plot.left(), bottomOf(l), plot.width(), topOf(l + 1) - bottomOf(l)), palette().base());
}

QRect LayerStackMap::barsArea() const {
  const QRect plot = plotRect();
  return {plot.right() + kSpace16, plot.top(), withType(kLayerBarsWidth - kLayerBarFigure), plot.height()};
}

MarginBars LayerStackMap::barsOf(const RouterWindow& window) const {
  MarginBars bars{.caption = selection_->windowText(window.steps), .least_high = kMinBarScale, .reference = 1};
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const LayerWindow* layer_window = window.find_layer(layers_[l]);
    for (int e = 0; layer_window && e < std::min(experts_, to_int(layer_window->utilisation.size())); ++e) {
      const double place = static_cast<double>(l) * block() + placeOfExpert(l, e);
      const bool is_fullest = e == layer_window->fullest && layer_window->max_vio > 0;
      bars.bars.push_back({yOf(place), yOf(place + 1), static_cast<double>(layer_window->utilisation[e]), is_fullest});
    }
  }
  return bars;
}

void LayerStackMap::paintMarks(QPainter& painter) {
  TimeHeatMap::paintMarks(painter);
  if (!window_) return;
  const QFontMetrics metrics(painter.font());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const LayerWindow* layer_window = window_->find_layer(layers_[l]);
    if (!layer_window) continue;
    const double y = topOf(l) + metrics.ascent() + metrics.height();
    if (y + metrics.height() + metrics.descent() > height())
      continue;  // a low panel has room for the name of the layer
    painter.setPen(mutedText(palette()));
    painter.drawText(QPointF(0, y), "MaxVio");
    const QRectF below(0, y + metrics.height() + metrics.descent(), nameWidth(), 2 * metrics.height());
    if (!showsBars() && below.bottom() <= bottomOf(l))  // the bars name their steps
      painter.drawText(below, Qt::TextWordWrap, selection_->windowText(window_->steps));
    painter.setPen(palette().text().color());
    painter.drawText(QPointF(0, y + metrics.height()), formatValue(layer_window->max_vio, 3));
  }
  if (showsBars()) paintMarginBars(painter, barsArea(), barsOf(*window_), palette());
}

}  // namespace moescope
