#include "widgets/plots/scatter_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

constexpr double kNearPoint = 14;        // pixels
constexpr double kMarginInPlane = 1.12;  // half of the axis divided by the farthest coordinate

}  // namespace

double ScatterPlot::reach(bool vertical) const {
  double x = 0, y = 0;
  for (const Point& point : points_) {
    if (std::isnan(point.x)) continue;
    x = std::max(x, std::abs(point.x));
    y = std::max(y, std::abs(point.y));
  }
  const double width = std::max(1, plotRect().width()), height = std::max(1, plotRect().height());
  const double unit = std::max(x / width, y / height) * kMarginInPlane;  // half of the axes' units per pixel
  if (!(unit > 0)) return 1;
  return unit * (vertical ? height : width);
}

std::vector<Tick> ScatterPlot::ticks(bool vertical) const {
  const int room = vertical ? plotRect().height() / withType(36) : plotRect().width() / withType(60);
  return linearTicks(-reach(vertical), reach(vertical), std::max(2, room));
}

Axis ScatterPlot::axis(bool vertical) const {
  return vertical ? axisUp(-reach(true), reach(true)) : axisAcross(-reach(false), reach(false));
}

QPointF ScatterPlot::placeOf(int point) const {
  return {axis(false).toPixel(points_[point].x), axis(true).toPixel(points_[point].y)};
}

int ScatterPlot::nearest(QPoint position) const {
  int best = -1;
  double distance = kNearPoint;
  for (int i = 0; i < to_int(points_.size()); ++i) {
    if (!isDrawn(i)) continue;
    const QPointF offset = placeOf(i) - position;
    const double d = std::hypot(offset.x(), offset.y());
    if (d < distance) {
      best = i;
      distance = d;
    }
  }
  return best;
}

void ScatterPlot::paintStatic(QPainter& painter) {
  paintLeftAxis(painter, axis(true), ticks(true), y_caption_);
  paintVerticalGrid(painter, axis(false), ticks(false));
  paintBottomAxis(painter, axis(false), ticks(false), captionForms(x_caption_));
  if (printed()) paintLegendInRow(painter, legend_);  // else it is on the answer line
}

void ScatterPlot::paintData(QPainter& painter) {
  painter.setRenderHint(QPainter::Antialiasing);
  QColor rim = palette().text().color();
  rim.setAlpha(150);
  const double radius = (points_.size() > 100 ? 2.6 : 4) * typeScale(fontMetrics());
  painter.setPen(QPen(rim, 0));
  for (int i = 0; i < to_int(points_.size()); ++i) {
    if (!isDrawn(i)) continue;
    painter.setBrush(QColor(legend_.lut[points_[i].code]));
    painter.drawEllipse(placeOf(i), radius, radius);
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  paintIds(painter);
}

// Paints the id beside each point unless it would cover another id.
void ScatterPlot::paintIds(QPainter& painter) const {
  painter.setPen(palette().text().color());
  std::vector<QRectF> painted;
  for (int i = 0; i < to_int(points_.size()); ++i) {
    if (!isDrawn(i)) continue;
    const QString id = QString::number(i);
    const double width = fontMetrics().horizontalAdvance(id), height = fontMetrics().height();
    const QRectF place(placeOf(i) + QPointF(withType(6), -height / 2), QSizeF(width, height));
    const auto covered = [&](const QRectF& other) { return other.intersects(place); };
    if (!plotRect().contains(place.toRect()) || std::ranges::any_of(painted, covered)) continue;
    painter.drawText(place, Qt::AlignCenter, id);
    painted.push_back(place);
  }
}

void ScatterPlot::paintOverlay(QPainter& painter) {
  painter.setRenderHint(QPainter::Antialiasing);
  if (current_ >= 0 && current_ < to_int(points_.size()) && isDrawn(current_)) {
    painter.setPen(cursorColor(dark()));
    painter.drawEllipse(placeOf(current_), withType(6), withType(6));
    painter.drawEllipse(placeOf(current_), withType(7), withType(7));
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  if (const int point = nearest(mouse_); point >= 0 && describe) {
    painter.setPen(palette().text().color());
    painter.drawEllipse(placeOf(point), withType(5), withType(5));
  }
  PlotFrame::paintOverlay(painter);
}

QStringList ScatterPlot::readoutAt(QPoint position) const {
  const int point = describe ? nearest(position) : -1;
  return point < 0 ? QStringList() : describe(point);
}

void ScatterPlot::mousePressEvent(QMouseEvent* event) {
  const int point = notice().isEmpty() ? nearest(event->pos()) : -1;
  if (event->button() == Qt::LeftButton && point >= 0) emit pointChosen(current_ = point);
}

void ScatterPlot::keyPressEvent(QKeyEvent* event) {
  const int direction = arrowOf(event).x() + arrowOf(event).y();
  if (points_.empty() || direction == 0) return QWidget::keyPressEvent(event);
  const int point = std::clamp(current_ + direction, 0, to_int(points_.size()) - 1);
  current_ = point;  // set here, since keys may come faster than paints
  emit pointChosen(point);
  if (describe) emit readoutChanged(describe(point).join(QStringLiteral("   ")));
}

}  // namespace moescope
