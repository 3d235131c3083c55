#include "widgets/text/stability_bars.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

void StabilityBars::setBars(std::vector<Bar> bars, float baseline, int current_layer, const QString& caption) {
  caption_ = caption;
  bars_ = std::move(bars);
  baseline_ = baseline;
  current_ = current_layer;
}

QString StabilityBars::staticKey() const {
  QString key = caption_;
  for (const Bar& bar : bars_) key += QString::number(bar.layer) + QLatin1Char(' ');
  return key;
}

QRectF StabilityBars::slot(std::size_t bar) const {
  const QRectF room = plotRect();
  const double width = room.width() / static_cast<double>(std::max<std::size_t>(1, bars_.size()));
  return {room.left() + static_cast<double>(bar) * width, room.top(), width, room.height()};
}

int StabilityBars::barAt(QPoint position) const {
  for (std::size_t i = 0; i < bars_.size(); ++i)
    if (slot(i).contains(position)) return static_cast<int>(i);
  return -1;
}

std::optional<FigureTarget> StabilityBars::figureAt(QPoint position) const {
  const int bar = notice().isEmpty() ? barAt(position) : -1;
  if (bar < 0 || !figureOfLayer) return std::nullopt;
  return figureOfLayer(bars_[static_cast<std::size_t>(bar)].layer);
}

void StabilityBars::paintStatic(QPainter& painter) {
  const QRect room = plotRect();
  const Axis axis{0, 1, static_cast<double>(room.bottom()), static_cast<double>(room.top())};
  paintLeftAxis(painter, axis,
                {{0, QStringLiteral("0 %")},
                 {0.25, QStringLiteral("25 %")},
                 {0.5, QStringLiteral("50 %")},
                 {0.75, QStringLiteral("75 %")},
                 {1, QStringLiteral("100 %")}},
                caption_);
  const QFontMetrics metrics(painter.font());
  painter.setPen(mutedText(palette()));
  int last = -1000;
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    const QString label = QString("L%1").arg(bars_[i].layer);
    const int x = static_cast<int>(slot(i).center().x()), half = metrics.horizontalAdvance(label) / 2 + 2;
    if (x - half < last) continue;
    last = x + half;
    painter.drawText(QRect(x - half, room.bottom() + 3, 2 * half, metrics.height()), Qt::AlignCenter, label);
  }
}

void StabilityBars::paintData(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    if (is_missing(bars_[i].stability)) continue;
    const QRectF place = slot(i);
    const double gap = std::min(6.0, place.width() * 0.15),
                 height = place.height() * static_cast<double>(bars_[i].stability);
    const QRectF bar(place.left() + gap, place.bottom() - height, place.width() - 2 * gap, height);
    painter.fillRect(bar, QColor(colors(palette()).plain_bar));
    const QString label = QString::number(100 * static_cast<double>(bars_[i].stability), 'f', 0) + QStringLiteral(" %");
    if (metrics.horizontalAdvance(label) + 2 > place.width()) continue;
    painter.setPen(palette().text().color());
    painter.drawText(QRectF(place.left(), bar.top() - metrics.height() - 1, place.width(), metrics.height()),
                     Qt::AlignCenter, label);
  }
  if (is_missing(baseline_)) return;
  const QRect room = plotRect();
  const double y = room.bottom() - static_cast<double>(baseline_) * room.height();
  painter.setPen(QPen(palette().text().color(), 1, Qt::DashLine));
  painter.drawLine(QPointF(room.left(), y), QPointF(room.right(), y));
  painter.setPen(palette().text().color());
  const QString label = QString("by chance %1").arg(formatPercent(baseline_));
  const int width = metrics.horizontalAdvance(label) + 8;
  const QRect box(room.right() - width, static_cast<int>(y) - metrics.height() - 1, width, metrics.height());
  QColor ground = palette().base().color();
  ground.setAlpha(215);
  painter.fillRect(box, ground);
  painter.drawText(box, Qt::AlignCenter, label);
}

void StabilityBars::paintOverlay(QPainter& painter) {
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    if (bars_[i].layer != current_) continue;
    const QRectF place = slot(i);
    painter.setPen(Qt::NoPen);
    painter.setBrush(cursorColor(dark()));
    painter.drawRect(QRectF(place.left() + 2, place.bottom() + 1, place.width() - 4, 2));
    painter.setBrush(Qt::NoBrush);
  }
  PlotFrame::paintOverlay(painter);
}

QStringList StabilityBars::readoutAt(QPoint position) const {
  const int bar = describe ? barAt(position) : -1;
  return bar < 0 ? QStringList() : describe(bar);
}

void StabilityBars::mousePressEvent(QMouseEvent* event) {
  const int bar = notice().isEmpty() ? barAt(event->pos()) : -1;
  if (bar >= 0) emit layerChosen(bars_[static_cast<std::size_t>(bar)].layer);
}

}  // namespace moescope
