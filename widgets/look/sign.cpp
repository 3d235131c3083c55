#include "widgets/look/sign.h"

#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

// Of the side of the mark.
constexpr double kStroke = 0.11;

void paintCheck(QPainter& painter, const QRectF& at, const QColor& color, const QColor& ground) {
  const double side = at.width();
  painter.setBrush(color);
  painter.drawEllipse(at.adjusted(0.05 * side, 0.05 * side, -0.05 * side, -0.05 * side));
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(ground, kStroke * side, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  const auto point = [&](double x, double y) { return at.topLeft() + QPointF(x, y) * side; };
  painter.drawPolyline(QPolygonF({point(0.3, 0.52), point(0.45, 0.66), point(0.71, 0.36)}));
}

void paintTriangle(QPainter& painter, const QRectF& at, const QColor& color, const QColor& ground) {
  const double side = at.width();
  const auto point = [&](double x, double y) { return at.topLeft() + QPointF(x, y) * side; };
  painter.setBrush(color);
  painter.setPen(QPen(color, kStroke * side, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.drawPolygon(QPolygonF({point(0.5, 0.12), point(0.93, 0.86), point(0.07, 0.86)}));
  painter.setPen(QPen(ground, kStroke * side, Qt::SolidLine, Qt::RoundCap));
  painter.drawLine(point(0.5, 0.38), point(0.5, 0.58));
  painter.drawPoint(point(0.5, 0.75));
}

void paintDiamond(QPainter& painter, const QRectF& at, const QColor& color) {
  const QPointF middle = at.center();
  const double reach = 0.45 * at.width();
  painter.setBrush(color);
  painter.drawPolygon(QPolygonF({middle - QPointF(0, reach), middle + QPointF(reach, 0), middle + QPointF(0, reach),
                                 middle - QPointF(reach, 0)}));
}

void paintCircle(QPainter& painter, const QRectF& at, const QColor& color, double radius) {
  painter.setPen(QPen(color, kStroke * at.width()));
  painter.drawEllipse(at.center(), radius * at.width(), radius * at.width());
}

}  // namespace

QColor signColor(Sign sign, bool dark) {
  const Colors& c = colors(dark);
  switch (sign) {
    case Sign::good:
      return QColor(c.good);
    case Sign::attention:
      return QColor(c.attention);
    case Sign::bad:
      return QColor(c.bad);
    case Sign::unsure:
    case Sign::note:
    case Sign::over:
      break;
  }
  return QColor(c.ink2);
}

QColor signGround(Sign sign, bool dark) {
  const Colors& c = colors(dark);
  switch (sign) {
    case Sign::good:
      return QColor(c.good_soft);
    case Sign::attention:
      return QColor(c.attention_soft);
    case Sign::bad:
      return QColor(c.bad_soft);
    case Sign::unsure:
    case Sign::note:
    case Sign::over:
      break;
  }
  return QColor(c.neutral_soft);
}

void paintSign(QPainter& painter, const QRectF& place, Sign sign, bool dark) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(Qt::NoBrush);
  const QColor color = signColor(sign, dark), ground = signGround(sign, dark);
  if (sign == Sign::good) paintCheck(painter, place, color, ground);
  if (sign == Sign::attention) paintDiamond(painter, place, color);
  if (sign == Sign::bad) paintTriangle(painter, place, color, ground);
  if (sign == Sign::unsure) paintCircle(painter, place, color, 0.4);
  if (sign == Sign::note || sign == Sign::over) paintCircle(painter, place, color, 0.25);
  painter.restore();
}

QPixmap signPixmap(Sign sign, int size, bool dark, double pixel_ratio) {
  QPixmap pixmap(QSize(size, size) * pixel_ratio);
  pixmap.setDevicePixelRatio(pixel_ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  paintSign(painter, QRectF(0, 0, size, size), sign, dark);
  return pixmap;
}

SignLabel::SignLabel(QWidget* parent) : QWidget(parent) {
  followFont(this, [this] {
    const int side = withType(kMarkSize, fontMetrics());
    setFixedSize(side, side);
  });
}

void SignLabel::setSign(Sign sign) {
  sign_ = sign;
  update();
}

void SignLabel::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  paintSign(painter, rect(), sign_, isDark(palette()));
}

}  // namespace moescope
