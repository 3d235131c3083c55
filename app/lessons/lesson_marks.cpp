#include "app/lessons/lesson_marks.h"

#include <QPainter>
#include <QPainterPath>

#include "widgets/look/sign.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr double kMarkLine = 2;

void paintTick(QPainter& painter, const QRectF& place, const QColor& color) {
  painter.setPen(QPen(color, kMarkLine, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.drawPolyline(QPolygonF({{place.left() + place.width() * 0.2, place.top() + place.height() * 0.55},
                                  {place.left() + place.width() * 0.42, place.top() + place.height() * 0.75},
                                  {place.left() + place.width() * 0.82, place.top() + place.height() * 0.3}}));
}

QRectF diskIn(const QRectF& place) {
  const double inset = place.width() * 0.14;
  return place.adjusted(inset, inset, -inset, -inset);
}

void paintHalfDisk(QPainter& painter, const QRectF& place, const QColor& color) {
  const QRectF disk = diskIn(place);
  painter.setPen(QPen(color, kMarkLine));
  painter.drawEllipse(disk);
  QPainterPath half_disk(disk.center());
  half_disk.arcTo(disk, 90, 180);
  painter.fillPath(half_disk, color);
}

}  // namespace

void paintLessonMark(QPainter& painter, const QRectF& place, LessonMark mark, const QPalette& palette) {
  const Colors& c = colors(palette);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  switch (mark) {
    case LessonMark::waiting:
      painter.setPen(QPen(QColor(c.axis), kMarkLine));
      painter.drawEllipse(diskIn(place));
      break;
    case LessonMark::running:
      paintHalfDisk(painter, place, QColor(c.accent));
      break;
    case LessonMark::done:
      paintTick(painter, place, QColor(c.good));
      break;
    case LessonMark::fault:
      paintSign(painter, diskIn(place), Sign::bad, isDark(palette));
      break;
  }
  painter.restore();
}

LessonSegments::LessonSegments(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void LessonSegments::show(int step, int steps) {
  step_ = step;
  steps_ = std::max(1, steps);
  setAccessibleName(QString("Step %1 of %2").arg(step + 1).arg(steps));
  update();
}

QSize LessonSegments::sizeHint() const {
  return {withType(kSpace24, fontMetrics()), withType(kSpace4, fontMetrics())};
}

void LessonSegments::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  const double segment_width = (width() - kSpace4 * (steps_ - 1.0)) / steps_;
  for (int i = 0; i < steps_; ++i) {
    const QRectF segment(i * (segment_width + kSpace4), 0, segment_width, height());
    drawRounded(painter, segment.toRect(), height() / 2, QColor(i <= step_ ? c.accent : c.hairline), Qt::transparent);
  }
}

}  // namespace moescope
