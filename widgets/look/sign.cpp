#include "widgets/look/sign.h"

#include "core/findings/health.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

// Signs are drawn in a box of 16 x 16.
void paintTick(QPainter& painter, const QColor& ground) {
  painter.setPen(QPen(ground, 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.setBrush(Qt::NoBrush);
  painter.drawPolyline(QPolygonF({{4.6, 8.3}, {7.0, 10.7}, {11.4, 5.6}}));
}

void paintExclamation(QPainter& painter, const QColor& ground) {
  painter.setPen(QPen(ground, 1.8, Qt::SolidLine, Qt::RoundCap));
  painter.drawLine(QPointF(8, 6.2), QPointF(8, 9.4));
  painter.drawPoint(QPointF(8, 12.2));
}

}  // namespace

Sign signOf(HealthVerdict verdict) {
  switch (verdict) {
    case HealthVerdict::unhealthy:
    case HealthVerdict::lost:
      return Sign::bad;
    case HealthVerdict::attention:
    case HealthVerdict::assumed:
      return Sign::attention;
    case HealthVerdict::healthy:
      return Sign::good;
    case HealthVerdict::too_young:
    case HealthVerdict::unknown:
      break;
  }
  return Sign::unsure;
}

QColor signColor(Sign sign, bool dark) {
  const Colors& c = colors(dark);
  if (sign == Sign::good) return c.good;
  if (sign == Sign::attention) return c.attention;
  if (sign == Sign::bad) return c.bad;
  return c.ink2;
}

QColor signGround(Sign sign, bool dark) {
  const Colors& c = colors(dark);
  if (sign == Sign::good) return c.good_soft;
  if (sign == Sign::attention) return c.attention_soft;
  if (sign == Sign::bad) return c.bad_soft;
  return c.neutral_soft;
}

void paintSign(QPainter& painter, const QRectF& place, Sign sign, bool dark) {
  const QColor color = signColor(sign, dark), ground(colors(dark).surface);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.translate(place.topLeft());
  painter.scale(place.width() / kMarkSize, place.height() / kMarkSize);
  painter.setPen(Qt::NoPen);
  painter.setBrush(color);
  switch (sign) {
    case Sign::good:
      painter.drawEllipse(QRectF(1, 1, 14, 14));
      paintTick(painter, ground);
      break;
    case Sign::attention:
      painter.drawPolygon(QPolygonF({{8, 1}, {15, 8}, {8, 15}, {1, 8}}));
      break;
    case Sign::bad:
      painter.setPen(QPen(color, 1.5, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
      painter.drawPolygon(QPolygonF({{8, 2}, {14.8, 14}, {1.2, 14}}));
      paintExclamation(painter, ground);
      break;
    case Sign::unsure:
      painter.drawChord(QRectF(2, 2, 12, 12), 90 * 16, 180 * 16);
      [[fallthrough]];
    case Sign::open:
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(color, 1.5));
      painter.drawEllipse(QRectF(2, 2, 12, 12));
      break;
    case Sign::note:
      painter.drawEllipse(QRectF(4.5, 4.5, 7, 7));
      break;
    case Sign::over:
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(color, 1.5));
      painter.drawEllipse(QRectF(4, 4, 8, 8));
      break;
  }
  painter.restore();
}

QPixmap signPixmap(Sign sign, int size, bool dark, double pixel_ratio) {
  QPixmap picture(QSize(size, size) * pixel_ratio);
  picture.setDevicePixelRatio(pixel_ratio);
  picture.fill(Qt::transparent);
  QPainter painter(&picture);
  paintSign(painter, QRectF(0, 0, size, size), sign, dark);
  return picture;
}

SignLabel::SignLabel(QWidget* parent) : QWidget(parent) {
  followFont(this, [this] { setFixedSize(QSize(1, 1) * withType(kMarkSize, fontMetrics())); });
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
