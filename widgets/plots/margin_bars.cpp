#include "widgets/plots/margin_bars.h"

#include <QFontMetrics>
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

// Paints values of strong bars and of rows as high as a line, unless one above is in the way, and returns their places.
QRegion paintFigures(QPainter& painter, const QRect& area, const MarginBars& bars, double high, const Colors& c) {
  const QFont normal = painter.font();
  const QFontMetrics metrics(semibold(normal));
  QRegion figure_places;
  for (const MarginBar& bar : bars.bars) {
    const double middle = (bar.top + bar.bottom) / 2, top = middle - metrics.height() / 2.0;
    if ((!bar.strong && bar.bottom - bar.top < metrics.height()) || top < figure_places.boundingRect().bottom())
      continue;
    painter.setFont(bar.strong ? semibold(normal) : normal);
    painter.setPen(QColor(bar.strong ? c.ink : c.ink2));
    const QString figure = formatValue(bar.value, 3);
    const double x = area.left() + bar.value / high * area.width() + kSpace4;
    painter.drawText(QPointF(x, top + metrics.ascent()), figure);
    figure_places += QRectF(x, top, metrics.horizontalAdvance(figure), metrics.height()).toAlignedRect();
  }
  return figure_places;
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
  for (const Tick& tick : linearTicks(0, high, kMaxScaleTicks)) {
    const int x = area.left() + static_cast<int>(tick.value / high * area.width());
    const int half_width = metrics.horizontalAdvance(tick.label) / 2 + 1;
    painter.drawText(
        QRect(std::max(x - half_width, area.left()), area.bottom() + kSpace4, 2 * half_width, metrics.height()),
        Qt::AlignCenter, tick.label);
  }
  paintBars(painter, area, bars, high, c);
  const QRegion figure_places = paintFigures(painter, area, bars, high, c);
  if (bars.reference >= 0) {  // goes through no figure
    const double x = area.left() + bars.reference / high * area.width();
    painter.setClipRegion(QRegion(area) - figure_places, Qt::IntersectClip);
    painter.setPen(QPen(QColor(c.ink), 1, Qt::DashLine));
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
  }
  painter.restore();
}

}  // namespace moescope
