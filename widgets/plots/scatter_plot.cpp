#include "widgets/plots/scatter_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

constexpr int kMaxOctaves = 6;
constexpr double kNearPoint = 14;        // pixels
constexpr double kMarginInPlane = 1.12;  // half of the axis divided by the farthest coordinate

}  // namespace

ScatterPlot::ScatterPlot(QWidget* parent, Axes axes) : PlotFrame(parent), axes_(axes) {}

void ScatterPlot::setPoints(std::vector<Point> points) {
  points_ = std::move(points);
  if (axes_ == Axes::plane) return;
  double farthest = 1;
  for (const Point& point : points_)
    for (const double value : {point.x, point.y})
      if (value > 0) farthest = std::max(farthest, std::abs(std::log2(value)));
  const int next = std::min(kMaxOctaves, static_cast<int>(std::ceil(farthest)));
  if (next > octaves_ || farthest < octaves_ - 1.3) octaves_ = next;  // changes rarely, so that the axis does not jump
}

bool ScatterPlot::isDrawn(int point) const {
  return axes_ == Axes::octaves || !std::isnan(points_[point].x);
}

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
  if (axes_ == Axes::octaves) return octaveTicks(octaves_);
  const int room = vertical ? plotRect().height() / withType(36) : plotRect().width() / withType(60);
  return linearTicks(-reach(vertical), reach(vertical), std::max(2, room));
}

Axis ScatterPlot::axis(bool vertical) const {
  if (axes_ == Axes::plane)
    return vertical ? axisUp(-reach(true), reach(true)) : axisAcross(-reach(false), reach(false));
  return vertical ? axisUp(std::exp2(-octaves_), std::exp2(octaves_), true)
                  : axisAcross(std::exp2(-octaves_), std::exp2(octaves_), true);
}

QPointF ScatterPlot::placeOf(int point) const {
  const Point& at = points_[point];
  if (axes_ == Axes::plane) return {axis(false).toPixel(at.x), axis(true).toPixel(at.y)};
  const double lowest = std::exp2(-octaves_), highest = std::exp2(octaves_);
  return {axis(false).toPixel(std::clamp(at.x, lowest, highest)),
          axis(true).toPixel(std::clamp(at.y, lowest, highest))};
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
  const QRect plot = plotRect();
  paintLeftAxis(painter, axis(true), ticks(true), y_caption_);
  paintVerticalGrid(painter, axis(false), ticks(false));
  paintBottomAxis(painter, axis(false), ticks(false), captionForms(x_caption_));
  if (axes_ == Axes::octaves) {
    painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
    painter.drawLine(QPoint(plot.left(), plot.bottom()), QPoint(plot.right(), plot.top()));
  }
  if (axes_ == Axes::octaves || printed()) paintLegendInRow(painter, legend_);  // a plane's is on the answer line
}

void ScatterPlot::paintData(QPainter& painter) {
  painter.setRenderHint(QPainter::Antialiasing);
  QColor rim = palette().text().color();
  rim.setAlpha(150);
  const double radius = (points_.size() > 100 ? 2.6 : 4) * typeScale(fontMetrics());
  painter.setPen(QPen(rim, 0));
  for (int i = 0; i < to_int(points_.size()); ++i) {
    if (!isDrawn(i)) continue;
    const Point& point = points_[i];
    const bool none = axes_ == Axes::octaves && (point.x <= 0 || point.y <= 0);
    painter.setBrush(none ? QBrush(Qt::NoBrush) : QBrush(QColor(legend_.lut[point.code])));
    painter.drawEllipse(placeOf(i), radius, radius);
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  if (axes_ == Axes::plane) paintIds(painter);
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
