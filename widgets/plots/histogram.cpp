#include "widgets/plots/histogram.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/look/tokens.h"

namespace moescope {

void Histogram::setBars(int first_category, std::vector<double> shares) {
  first_ = first_category;
  shares_ = std::move(shares);
  const double largest = shares_.empty() ? 0 : *std::ranges::max_element(shares_);
  const double next = niceRange(0, std::max(largest, 1e-3), false).high;
  if (next > top_share_ || next < 0.6 * top_share_) top_share_ = std::min(next, 1.0);
}

void Histogram::setCategoryTicks(std::vector<Tick> ticks) {
  ticks_ = std::move(ticks);
  for (Tick& tick : ticks_) tick.label.clear();
}

double Histogram::yOf(double category) const {
  const QRect plot = plotRect();
  return plot.bottom() + 1 - (category - first_) / std::max<double>(1, shares_.size()) * plot.height();
}

int Histogram::categoryAt(int y) const {
  const QRect plot = plotRect();
  const double share = (plot.bottom() + 0.5 - y) / std::max(1, plot.height());
  return first_ +
         std::clamp(static_cast<int>(std::floor(share * shares_.size())), 0, std::max(0, to_int(shares_.size()) - 1));
}

void Histogram::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  std::vector<Tick> shares = linearTicks(0, top_share_, std::max(2, plot.width() / withType(40)));
  for (Tick& tick : shares) tick.label = withMinus(QString::number(tick.value * 100, 'g', 3));
  paintVerticalGrid(painter, shareAxis(), shares);
  paintBottomAxis(painter, shareAxis(), shares, {});
  std::vector<Tick> centred = ticks_;
  for (Tick& tick : centred) tick.value += 0.5;
  const Axis categories{.low = static_cast<double>(first_),
                        .high = static_cast<double>(first_ + shares_.size()),
                        .at_low = plot.bottom() + 1.0,
                        .at_high = plot.top() + 0.0};
  paintLeftAxis(painter, categories, centred, share_caption_);
}

void Histogram::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  const QColor color(colors(palette()).plain_bar);
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i] <= 0) continue;
    const double top = yOf(first_ + i + 1), bottom = yOf(first_ + i);
    const double gap = bottom - top > 4 ? 1 : 0;
    // Even small shares are visible.
    const double length = std::max(1.0, shareAxis().toPixel(shares_[i]) - plot.left());
    painter.fillRect(QRectF(plot.left(), top + gap / 2, length, bottom - top - gap), color);
    if (i < strong_.size() && strong_[i] > 0)
      painter.fillRect(
          QRectF(plot.left(), top + gap / 2, std::max(1.0, length * strong_[i] / shares_[i]), bottom - top - gap),
          QColor(colors(palette()).strong_bar));
    if (marked_ == first_ + static_cast<int>(i))
      paintPointer(painter, QPointF(plot.left() - 2, (top + bottom) / 2), false);
  }
}

QStringList Histogram::readoutAt(QPoint position) const {
  if (!describe || !plotRect().contains(position) || shares_.empty()) return {};
  return describe(categoryAt(position.y()));
}

}  // namespace moescope
