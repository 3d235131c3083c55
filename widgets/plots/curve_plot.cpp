#include "widgets/plots/curve_plot.h"

#include <QKeyEvent>
#include <QPainter>
#include <cmath>

#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kCurveSwatch = 12, kLowCurves = 130, kKeySteps = 20;

}  // namespace

void CurvePlot::setCurves(std::vector<Curve> curves) {
  curves_ = std::move(curves);
  double largest = 1e-3;
  for (const Curve& curve : curves_)
    for (const QPointF& point : curve.points)
      if (std::isfinite(point.y())) largest = std::max(largest, point.y());
  const double next = niceRange(0, largest, false).high;
  if (next > top_ || next < 0.6 * top_) top_ = next;
}

void CurvePlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  auto values = linearTicks(0, top_, std::clamp(plot.height() / withType(26), 2, 10));
  for (Tick& tick : values) tick.label = withMinus(QString::number(tick.value * 100, 'g', 3));
  paintLeftAxis(painter, valueAxis(), values, shownCaption());
  const int max_ticks = std::max(2, plot.width() / withType(48));
  paintBottomAxis(painter, xAxis(), linearTicks(low_, high_, max_ticks), captionForms(x_caption_));
  painter.setPen(axisColor(palette()));
  painter.drawLine(plot.left(), plot.bottom() + 1, plot.right(), plot.bottom() + 1);
}

void CurvePlot::paintData(QPainter& painter) {
  std::vector<int> named;
  for (const Curve& curve : curves_)
    if (!curve.label.isEmpty()) named.push_back(curve.color);
  paintKey(painter, shownCaption(), legendLabels(), kCurveSwatch,
           [&](std::size_t i, const QRect& place) { paintSwatch(painter, place, named[i], dark()); });
  painter.setClipRect(plotRect().adjusted(0, -1, 1, 1));
  for (const Curve& curve : curves_) {
    std::vector<QPointF> line;
    for (const QPointF& point : curve.points)
      line.emplace_back(xAxis().toPixel(point.x()), valueAxis().toPixel(point.y()));
    painter.setPen(QPen(seriesColor(curve.color, dark()), 0, seriesLine(curve.color)));
    drawCurve(painter, line, true);
  }
}

// True if the plot is so low that the curves need the room of the caption.
bool CurvePlot::isLow() const {
  return height() < withType(kLowCurves);
}

QStringList CurvePlot::legendLabels() const {
  QStringList labels;
  for (const Curve& curve : curves_)
    if (!curve.label.isEmpty()) labels << curve.label;
  return labels;
}

QString CurvePlot::shownCaption() const {
  return isLow() || value_caption_.isEmpty() ? QString() : QString("%1, %").arg(value_caption_);
}

QMargins CurvePlot::margins() const {
  const int head = keyBeside(shownCaption(), legendLabels(), kCurveSwatch).height;
  return {axisLabelWidth(), std::max<int>(kSpace8, head), 12, axisLabelHeight()};
}

QPoint CurvePlot::cursorPosition() const {
  const QPoint middle = plotRect().center();
  return std::isfinite(mark_) ? QPoint(to_int(std::lround(xAxis().toPixel(mark_))), middle.y()) : middle;
}

void CurvePlot::paintOverlay(QPainter& painter) {
  const QRect plot = plotRect();
  if (std::isfinite(mark_)) paintCursorLine(painter, to_int(std::lround(xAxis().toPixel(mark_))));
  if (!describe || !plot.contains(mouse_)) return;
  painter.setPen(palette().text().color());
  painter.drawLine(mouse_.x(), plot.top(), mouse_.x(), plot.bottom());
  PlotFrame::paintOverlay(painter);
}

QStringList CurvePlot::readoutAt(QPoint position) const {
  return describe && plotRect().contains(position) ? describe(xAxis().fromPixel(position.x())) : QStringList();
}

void CurvePlot::keyPressEvent(QKeyEvent* event) {
  const int direction = arrowOf(event).x();
  if (direction == 0 || !std::isfinite(mark_)) return QWidget::keyPressEvent(event);
  mark_ = std::clamp(mark_ + direction * (high_ - low_) / kKeySteps, low_, high_);
  update();
  emit readoutChanged(readoutText(cursorPosition()));
}

}  // namespace moescope
