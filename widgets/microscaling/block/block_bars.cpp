#include "widgets/microscaling/block/block_bars.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kBarWidth = 0.84;      // share of an element's width
constexpr double kMinOutlineWidth = 4;  // narrower bars have no outline; red ones become zero
constexpr float kChosenAlpha = 0.18F;
constexpr int kMarkHeight = 16;                   // of "0" and "!" above a bar
constexpr int kLevelRoom = 5;                     // least distance of the lines of two numbers
constexpr int kOctavesBelow = 4;                  // octaves of the axis below the smallest number
constexpr int kWideBars = 300, kLimitLabel = 84;  // width from which the limits are named, and the width of their names

}  // namespace

BlockBars::BlockBars(QWidget* parent) : PlotFrame(parent) {
  setAccessibleName("Values of the block before and after quantization");
}

void BlockBars::setBlock(const BlockAnatomy* block, int color) {
  block_ = block;
  color_ = color;
  current_ = std::min(current_, to_int(block->elements.size()) - 1);
  const FormatTraits& format = traits(block->format.element);
  const bool has_scale = std::isfinite(block->scale.value) && block->scale.value > 0;
  const double scale = has_scale ? static_cast<double>(block->scale.value) : 0;
  largest_ = scale * format.max;
  // Stochastic rounding may make any magnitude below the smallest number zero.
  smallest_ = scale * format.min_subnormal * (block->format.rounding == Rounding::stochastic ? 1 : 0.5);
  chooseRange();
  markDirty();
}

// Chooses an axis that contains the upper limit and all magnitudes, except magnitudes far below the smallest number,
// and the lower limit unless it is far below all magnitudes.
void BlockBars::chooseRange() {
  double low = HUGE_VAL, high = largest_;
  for (const ElementAnatomy& e : block_->elements)
    if (const double magnitude = std::fabs(e.value); std::isfinite(magnitude) && magnitude > 0) {
      low = std::min(low, magnitude);
      high = std::max(high, magnitude);
    }
  if (largest_ > 0 && low > std::ldexp(smallest_, kOctavesBelow) && low < HUGE_VAL)
    low /= 2;
  else if (largest_ > 0)
    low = std::clamp(low, std::ldexp(smallest_, -kOctavesBelow), smallest_);
  low_ = high > 0 ? static_cast<int>(std::floor(std::log2(low))) - 1 : -1;
  high_ = high > 0 ? static_cast<int>(std::floor(std::log2(high))) + 1 : 1;
}

void BlockBars::setCurrent(int element) {
  if ((std::exchange(current_, element) < 0) != (element < 0)) markDirty();  // the key names the chosen element
  update();
}

QMargins BlockBars::margins() const {
  if (isLow()) return PlotFrame::margins();
  const int right = width() < withType(kWideBars) ? kSpace12 : withType(kLimitLabel);
  return {axisLabelWidth(), 8, right, axisLabelHeight() + fontMetrics().height()};
}

double BlockBars::yOf(double magnitude) const {
  const Axis axis = exponentAxis();
  return magnitude > 0 ? axis.toPixel(std::clamp<double>(std::log2(magnitude), low_, high_)) : axis.at_low;
}

QRectF BlockBars::slot(int element) const {
  const QRect plot = plotRect();
  const double width = static_cast<double>(plot.width()) / std::max<std::size_t>(1, block_->elements.size());
  return {plot.left() + element * width, static_cast<double>(plot.top()), width, static_cast<double>(plot.height())};
}

int BlockBars::elementAt(QPoint position) const {
  if (!block_ || block_->elements.empty() || !plotRect().contains(position)) return -1;
  const int count = to_int(block_->elements.size());
  return std::clamp((position.x() - plotRect().left()) * count / std::max(1, plotRect().width()), 0, count - 1);
}

void BlockBars::paintStatic(QPainter& painter) {
  if (!block_) return;
  const QRect plot = plotRect();
  if (largest_ > 0) {
    const Colors& c = colors(dark());
    const double top = yOf(largest_), bottom = yOf(smallest_);
    const double left_x = plot.left(), width = plot.width();
    paintLimit(painter, top, {left_x, plot.top() + 0.0, width, top - plot.top()}, c.attention_soft,
               {QString("clipped above"), QString("clipped")});
    if (std::log2(smallest_) > low_)
      paintLimit(painter, bottom, {left_x, bottom, width, plot.bottom() + 1 - bottom}, c.bad_soft,
                 {QString("zero below"), QString("zero")});
  }
  paintLevels(painter);
  paintLeftAxis(painter, exponentAxis(), powerOfTwoTicks(low_, high_, std::max(2, plot.height() / withType(20))),
                isLow() ? QString() : QString("magnitude"));
  const int count = to_int(block_->elements.size());
  const Axis elements{
      .low = -0.5, .high = count - 0.5, .at_low = static_cast<double>(plot.left()), .at_high = plot.right() + 1.0};
  const int signs = isLow() ? 0 : fontMetrics().height();
  paintBottomAxis(painter, elements, integerTicks(0, count - 1, std::max(2, plot.width() / withType(60))), {"element"},
                  signs);
  if (isLow()) return;
  paintKey(painter);
  if (painter.fontMetrics().horizontalAdvance(QLatin1Char('+')) > slot(0).width()) return;  // no room for the signs
  painter.setPen(mutedText(palette()));
  for (int i = 0; i < count; ++i)
    painter.drawText(QRectF(slot(i).left(), plot.bottom() + 1, slot(i).width(), signs), Qt::AlignCenter,
                     std::signbit(block_->elements[i].value) ? QStringLiteral("\u2212") : QStringLiteral("+"));
}

// Paints a line at each number of the format, if there is room between them.
void BlockBars::paintLevels(QPainter& painter) const {
  std::vector<double> levels;
  for (const float number : representable_values(block_->format.element))
    if (number > 0 && largest_ > 0) levels.push_back(yOf(number * largest_ / traits(block_->format.element).max));
  if (to_int(levels.size()) * withType(kLevelRoom) > plotRect().height()) return;
  painter.setPen(axisColor(palette()));
  for (const double y : levels) painter.drawLine(QPointF(plotRect().left(), y), QPointF(plotRect().right(), y));
}

// Paints a dashed line at a limit of the format, named at its right end, and the band beyond it.
void BlockBars::paintLimit(QPainter& painter, double y, const QRectF& band, QRgb ground,
                           const QStringList& label) const {
  const QRect plot = plotRect();
  painter.fillRect(band, QColor(ground));
  painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
  painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
  const QFontMetrics metrics(painter.font());
  const QRectF place(plot.right() + kSpace8, y - metrics.height() / 2.0, width() - plot.right() - kSpace8,
                     metrics.height());
  painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter,
                   fittingText(label, metrics, static_cast<int>(place.width())));
}

// Paints the key at the right of the caption.
void BlockBars::paintKey(QPainter& painter) const {
  using Swatch = LegendScale::Swatch;
  const Colors& c = colors(palette());
  LegendScale key;
  key.swatches = {{QColor(c.ink), "original", Swatch::frame}, {seriesColor(color_, dark()), "decoded"}};
  if (current_ >= 0) key.swatches.push_back({QColor(c.accent_soft), "chosen"});
  paintFlatLegend(painter, freeInCaptionRow(), key, palette());
}

void BlockBars::paintData(QPainter& painter) {
  if (!block_) return;
  const double bottom = yOf(0);
  for (int i = 0; i < to_int(block_->elements.size()); ++i) {
    const ElementAnatomy& e = block_->elements[i];
    const QRectF place = slot(i);
    const double width = std::max(1.0, place.width() * kBarWidth), left_x = place.center().x() - width / 2;
    const auto bar = [&](float value) {
      return QRectF(QPointF(left_x, yOf(std::fabs(value))), QPointF(left_x + width, bottom));
    };
    if (std::isfinite(e.dequantized))
      painter.fillRect(bar(e.dequantized), e.clipped ? QColor(colors(dark()).strong_bar) : seriesColor(color_, dark()));
    if (std::isfinite(e.value) && width >= kMinOutlineWidth) {
      painter.setPen(palette().text().color());
      painter.drawRect(bar(e.value));
    } else if (e.underflow) {
      painter.fillRect(bar(e.value), cursorColor(dark()));
    }
    QString sign;
    if (e.clipped) sign = QStringLiteral("!");
    if (e.underflow) sign = QStringLiteral("0");
    if (!std::isfinite(e.dequantized)) sign = QStringLiteral("?");
    if (painter.fontMetrics().horizontalAdvance(sign) > place.width() || sign.isEmpty()) continue;
    painter.setPen(cursorColor(dark()));
    const double top = std::max<double>(plotRect().top(), yOf(std::fabs(e.value)) - withType(kMarkHeight));
    painter.drawText(QRectF(place.left() - 6, top, place.width() + 12, withType(kMarkHeight)), Qt::AlignCenter, sign);
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
  emit elementChosen(std::clamp(current_ + step, 0, to_int(block_->elements.size()) - 1));
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
