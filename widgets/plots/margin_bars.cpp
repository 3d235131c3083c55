#include "widgets/plots/margin_bars.h"

#include <algorithm>
#include <cmath>

#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr double kMinSpacedRow = 3;  // pixels; no gap between lower rows
constexpr int kMaxScaleTicks = 3;

// Paints strong bars last, so that they stay visible where rows are thinner than a pixel.
void paintBars(QPainter& painter, const QRect& area, const MarginBars& bars, double high, const Colors& c) {
  for (const bool strong : {false, true})
    for (const MarginBar& bar : bars.bars) {
      if (bar.strong != strong) continue;
      const double height = bar.bottom - bar.top, gap = height >= kMinSpacedRow ? 1 : 0;
      const double width = std::max(bar.value > 0 ? 1.0 : 0.0, bar.value / high * area.width());
      const double bar_height = strong ? std::max(height - gap, 2.0) : std::max(height - gap, 0.5);
      painter.fillRect(QRectF(area.left(), (bar.top + bar.bottom - bar_height) / 2, width, bar_height),
                       QColor(strong ? c.strong_bar : c.plain_bar));
    }
}

// Paints values of strong bars and of rows as high as a line, unless one above is in the way. A value that the dashed
// line would cross is beyond it.
void paintFigures(QPainter& painter, const QRect& area, const MarginBars& bars, double high, const Colors& c) {
  const QFont normal = painter.font();
  const QFontMetrics metrics(semibold(normal));
  double free_top = area.top() - metrics.height();
  const double line = area.left() + bars.reference / high * area.width();
  for (const MarginBar& bar : bars.bars) {
    const double top = (bar.top + bar.bottom - metrics.height()) / 2;
    if ((!bar.strong && bar.bottom - bar.top < metrics.height()) || top < free_top) continue;
    painter.setFont(bar.strong ? semibold(normal) : normal);
    painter.setPen(QColor(bar.strong ? c.ink : c.ink2));
    const QString figure = formatValue(bar.value, 3);
    const double end = area.left() + bar.value / high * area.width();
    const bool is_crossed = end <= line && end + 2 * kSpace4 + metrics.horizontalAdvance(figure) >= line;
    painter.drawText(QPointF((is_crossed ? line : end) + kSpace4, top + metrics.ascent()), figure);
    free_top = top + metrics.height() - 1;
  }
}

}  // namespace

void paintMarginBars(QPainter& painter, const QRect& area, const MarginBars& bars, const QPalette& palette) {
  const Colors& c = colors(palette);
  painter.save();
  const QFontMetrics metrics = painter.fontMetrics();
  double high = bars.least_high;
  for (const MarginBar& bar : bars.bars) high = std::max(high, bar.value);
  if (high <= 0) high = 1;
  painter.setPen(QColor(c.ink2));
  painter.drawText(QPoint(area.left(), area.top() - kSpace4 - metrics.descent()), bars.caption);
  const std::vector<Tick> ticks = linearTicks(0, high, kMaxScaleTicks);
  if (ticks.size() > 1) high = ticks[1].value * std::ceil(high / ticks[1].value - 1e-9);  // the scale ends at a tick
  for (int free_x = area.left(); const Tick& tick : linearTicks(0, high, kMaxScaleTicks)) {
    const int half_width = metrics.horizontalAdvance(tick.label) / 2 + 1;
    const int tick_x = area.left() + std::max(static_cast<int>(tick.value / high * area.width()) - half_width, 0);
    if (tick_x < free_x) continue;  // it would touch the label before it
    painter.drawText(QRect(tick_x, area.bottom() + kSpace4, 2 * half_width, metrics.height()), Qt::AlignCenter,
                     tick.label);
    free_x = tick_x + 2 * half_width + kSpace4;
  }
  paintBars(painter, area, bars, high, c);
  paintFigures(painter, area, bars, high, c);
  if (bars.reference >= 0) {
    const double x = area.left() + bars.reference / high * area.width();
    painter.setPen(QPen(QColor(c.ink), 1, Qt::DashLine));
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
  }
  painter.restore();
}

}  // namespace moescope
