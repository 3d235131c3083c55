#include "widgets/microscaling/block/block_bars.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kBarWidth = 0.84;  // share of an element's width
constexpr float kChosenAlpha = 0.18F;
constexpr int kLowBars = 84;  // height below which the widget is low

}  // namespace

BlockBars::BlockBars(QWidget* parent) : PlotFrame(parent) {
  setAccessibleName("Values of the block before and after quantization");
}

void BlockBars::setBlock(const BlockAnatomy* block) {
  block_ = block;
  current_ = std::min(current_, static_cast<int>(block->elements.size()) - 1);
  markDirty();
}

void BlockBars::setCurrent(int element) {
  current_ = element;
  update();
}

Axis BlockBars::valueAxis() const {
  double low = 0, high = 0;
  if (block_)
    for (const ElementAnatomy& e : block_->elements)
      for (const double v : {static_cast<double>(e.value), static_cast<double>(e.dequantized)}) {
        if (!std::isfinite(v)) continue;
        low = std::min(low, v);
        high = std::max(high, v);
      }
  // niceRange() takes values of any size, subnormals included.
  const ValueRange range = low == high ? ValueRange{-1, 1} : niceRange(low, high, false);
  const QRect plot = plotRect();
  return {range.low, range.high, plot.bottom() + 1.0, static_cast<double>(plot.top()), false};
}

QRectF BlockBars::slot(int element) const {
  const QRect plot = plotRect();
  const double width = static_cast<double>(plot.width()) / std::max<std::size_t>(1, block_->elements.size());
  return {plot.left() + element * width, static_cast<double>(plot.top()), width, static_cast<double>(plot.height())};
}

int BlockBars::elementAt(QPoint position) const {
  if (!block_ || block_->elements.empty() || !plotRect().contains(position)) return -1;
  const int count = block_->elements.size();
  return std::clamp((position.x() - plotRect().left()) * count / std::max(1, plotRect().width()), 0, count - 1);
}

void BlockBars::paintStatic(QPainter& painter) {
  if (!block_) return;
  const Axis axis = valueAxis();
  paintLeftAxis(painter, axis, linearTicks(axis.low, axis.high, std::max(2, plotRect().height() / withType(28))),
                isLow() ? QString() : QString("value"));
  const int count = block_->elements.size();
  const QRect plot = plotRect();
  const Axis elements{
      .low = -0.5, .high = count - 0.5, .at_low = static_cast<double>(plot.left()), .at_high = plot.right() + 1.0};
  paintBottomAxis(painter, elements, integerTicks(0, count - 1, std::max(2, plot.width() / withType(60))), {"element"});
  if (!isLow()) paintKey(painter);
}

bool BlockBars::isLow() const {
  return height() < withType(kLowBars);
}

// Paints the key at the right of the caption: a hollow and a filled square.
void BlockBars::paintKey(QPainter& painter) const {
  const QFontMetrics metrics(painter.font());
  const QRect row = freeInCaptionRow();
  const QString original = "original", decoded = QString("decoded");
  const int box = metrics.ascent() - 2, gap = kSpace4;
  const int wide = metrics.horizontalAdvance(original + decoded) + 2 * (box + gap) + kSpace12;
  if (wide > row.width()) return;
  int x = row.right() - wide;
  for (const bool filled : {false, true}) {
    const QRect square(x, row.center().y() - box / 2, box, box);
    painter.fillRect(square, filled ? seriesColor(0, dark()) : palette().base().color());
    painter.setPen(filled ? seriesColor(0, dark()) : palette().text().color());
    painter.drawRect(square.adjusted(0, 0, -1, -1));
    x += box + gap;
    painter.setPen(mutedText(palette()));
    const QString& text = filled ? decoded : original;
    painter.drawText(QRect(x, row.top(), metrics.horizontalAdvance(text) + 1, row.height()), Qt::AlignVCenter, text);
    x += metrics.horizontalAdvance(text) + kSpace12;
  }
}

void BlockBars::paintData(QPainter& painter) {
  if (!block_) return;
  const Axis axis = valueAxis();
  const double zero = axis.toPixel(0);
  painter.setPen(mutedText(palette()));
  painter.drawLine(QPointF(plotRect().left(), zero), QPointF(plotRect().right(), zero));
  for (int i = 0; i < static_cast<int>(block_->elements.size()); ++i) {
    const ElementAnatomy& e = block_->elements[i];
    const QRectF place = slot(i);
    const double width = std::max(1.0, place.width() * kBarWidth), left_x = place.center().x() - width / 2;
    const auto bar = [&](double value) {
      return QRectF(QPointF(left_x, axis.toPixel(value)), QPointF(left_x + width, zero)).normalized();
    };
    if (std::isfinite(e.dequantized)) painter.fillRect(bar(e.dequantized), seriesColor(0, dark()));
    if (std::isfinite(e.value)) {
      painter.setPen(palette().text().color());
      painter.drawRect(bar(e.value));
    }
    const QString sign = !std::isfinite(e.dequantized) ? QStringLiteral("?")
                         : e.underflow                 ? QStringLiteral("0")
                         : e.clipped                   ? QStringLiteral("!")
                                                       : QString();
    if (sign.isEmpty()) continue;
    painter.setPen(cursorColor(dark()));
    painter.drawText(QRectF(place.left() - 6, plotRect().top(), place.width() + 12, withType(16)), Qt::AlignCenter,
                     sign);
  }
}

void BlockBars::paintOverlay(QPainter& painter) {
  if (!block_) return;
  if (current_ >= 0) {
    QColor ground(colors(dark()).accent);
    ground.setAlphaF(kChosenAlpha);
    painter.fillRect(slot(current_), ground);
  }
  PlotFrame::paintOverlay(painter);
}

QStringList BlockBars::readoutAt(QPoint position) const {
  const int element = block_ ? elementAt(position) : -1;
  return element < 0 ? QStringList() : elementReadout(*block_, element);
}

void BlockBars::mousePressEvent(QMouseEvent* event) {
  if (const int element = elementAt(event->pos()); element >= 0) emit elementChosen(element);
}

void BlockBars::keyPressEvent(QKeyEvent* event) {
  const int step = arrowOf(event).x();
  if (!step || !block_ || block_->elements.empty()) return PlotFrame::keyPressEvent(event);
  emit elementChosen(std::clamp(current_ + step, 0, static_cast<int>(block_->elements.size()) - 1));
}

QStringList elementReadout(const BlockAnatomy& block, int element) {
  const ElementAnatomy& e = block.elements[element];
  QStringList lines{QString("element %1").arg(element),
                    QString("%1 \u2192 %2").arg(withMinus(exactText(e.value)), withMinus(exactText(e.dequantized)))};
  if (std::isnan(e.dequantized)) return lines << QString("NaN block");
  lines << QString("error %1").arg(formatValue(e.error));
  if (e.underflow) lines << QString("flushed to zero");
  if (e.clipped)
    lines << QString("clipped: |%1| > %2").arg(withMinus(exactText(e.scaled))).arg(traits(block.format.element).max);
  return lines;
}

}  // namespace moescope
