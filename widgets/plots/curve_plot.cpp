#include "widgets/plots/curve_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kCurveSwatch = 12, kLowCurves = 130;

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
  auto values = linearTicks(0, top_, std::max(2, plot.height() / withType(26)));
  for (Tick& tick : values) tick.label = QString::number(tick.value * 100, 'g', 3);
  paintLeftAxis(painter, valueAxis(), values, shownCaption());
  const int max_ticks = std::max(2, plot.width() / withType(48));
  const auto ticks = bars_ ? integerTicks(low_, high_, max_ticks) : linearTicks(low_, high_, max_ticks);
  paintBottomAxis(painter, xAxis(), ticks, captionForms(x_caption_));
  painter.setPen(axisColor(palette()));
  painter.drawLine(plot.left(), plot.bottom() + 1, plot.right(), plot.bottom() + 1);
}

void CurvePlot::paintData(QPainter& painter) {
  paintCurveLegend(painter);
  painter.setClipRect(plotRect().adjusted(0, -1, 1, 1));
  bars_ ? paintBars(painter) : paintCurves(painter);
}

void CurvePlot::paintCurves(QPainter& painter) const {
  for (const Curve& curve : curves_) {
    std::vector<QPointF> line;
    for (const QPointF& point : curve.points)
      line.emplace_back(xAxis().toPixel(point.x()), valueAxis().toPixel(point.y()));
    painter.setPen(QPen(seriesColor(curve.color, dark()), 0));
    drawCurve(painter, line, true);
  }
}

void CurvePlot::paintBars(QPainter& painter) const {
  const double unit = xAxis().toPixel(1) - xAxis().toPixel(0);
  const double bar_width = std::max(1.0, unit * 0.8 / std::max<std::size_t>(1, curves_.size()));
  for (std::size_t c = 0; c < curves_.size(); ++c)
    for (const QPointF& point : curves_[c].points) {
      const double left_x = xAxis().toPixel(point.x() - 0.4) + c * bar_width;
      const double y = valueAxis().toPixel(point.y());
      painter.fillRect(QRectF(left_x, y, bar_width, plotRect().bottom() + 1 - y),
                       seriesColor(curves_[c].color, dark()));
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

void CurvePlot::paintCurveLegend(QPainter& painter) const {
  const std::vector<KeyEntry> entries = keyBeside(shownCaption(), legendLabels(), kCurveSwatch).entries;
  auto entry = entries.begin();
  for (const Curve& curve : curves_) {
    if (curve.label.isEmpty()) continue;
    const QRect swatch = entry->swatch;
    painter.fillRect(QRect(swatch.left(), swatch.center().y() - 1, swatch.width(), 3),
                     seriesColor(curve.color, dark()));
    painter.setPen(palette().text().color());
    painter.drawText(entry->text, Qt::AlignLeft | Qt::AlignVCenter, curve.label);
    ++entry;
  }
}

QPoint CurvePlot::cursorPosition() const {
  const QPoint middle = plotRect().center();
  return std::isfinite(mark_) ? QPoint(static_cast<int>(std::lround(xAxis().toPixel(mark_))), middle.y()) : middle;
}

void CurvePlot::paintOverlay(QPainter& painter) {
  const QRect plot = plotRect();
  if (std::isfinite(mark_)) {
    const int x = std::lround(xAxis().toPixel(mark_));
    bars_ ? paintPointer(painter, QPointF(x, plot.bottom() + 1), true) : paintCursorLine(painter, x);
  }
  if (!describe || !plot.contains(mouse_)) return;
  painter.setPen(palette().text().color());
  painter.drawLine(mouse_.x(), plot.top(), mouse_.x(), plot.bottom());
  PlotFrame::paintOverlay(painter);
}

QStringList CurvePlot::readoutAt(QPoint position) const {
  return describe && plotRect().contains(position) ? describe(xAxis().fromPixel(position.x())) : QStringList();
}

void CurvePlot::mouseMoveEvent(QMouseEvent* event) {
  PlotFrame::mouseMoveEvent(event);
  const bool inside = describe && notice().isEmpty() && plotRect().contains(mouse_);
  if (inside && event->buttons() & Qt::LeftButton) emit xChosen(xAxis().fromPixel(mouse_.x()));
}

void CurvePlot::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && notice().isEmpty() && plotRect().contains(event->pos()))
    emit xChosen(xAxis().fromPixel(event->pos().x()));
}

void CurvePlot::keyPressEvent(QKeyEvent* event) {
  const int direction = arrowOf(event).x();
  if (direction == 0 || !std::isfinite(mark_)) return QWidget::keyPressEvent(event);
  mark_ = std::clamp(mark_ + direction * mark_step_, low_, high_);  // set here, since keys may come faster than paints
  emit xChosen(mark_);
}

}  // namespace moescope
