#include "app/look/icons.h"

#include <QPainter>
#include <QPainterPath>
#include <QSvgRenderer>
#include <cmath>

#include "core/io/assets.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kSize = 16;

QPainterPath triangle(double x, double y, double w, double h) {
  QPainterPath path;
  path.moveTo(x, y);
  path.lineTo(x + w, y + h / 2);
  path.lineTo(x, y + h);
  path.closeSubpath();
  return path;
}

QPainterPath turnBack() {  // an open ring with an arrow head
  QPainterPath ring;
  ring.arcMoveTo(3, 3, 10, 10, 60);
  ring.arcTo(3, 3, 10, 10, 60, 290);
  QPainterPathStroker stroker;
  stroker.setWidth(2);
  QPainterPath path = stroker.createStroke(ring);
  path.addPath(triangle(9.5, 0.5, 4.5, 6));
  return path;
}

QPainterPath sliders() {
  QPainterPath path;
  for (int i = 0; i < 3; ++i) {
    const double y = 3.5 + 4.5 * i, knob = i == 1 ? 10 : 4.5;
    path.addRect(1.5, y - 0.75, 13, 1.5);
    path.addEllipse(QPointF(knob, y), 2.2, 2.2);
  }
  path.setFillRule(Qt::WindingFill);
  return path;
}

QPainterPath shape(Picture which) {
  QPainterPath path;
  switch (which) {
    case Picture::play:
      return triangle(4, 2, 10, 12);
    case Picture::pause:
      path.addRect(3.5, 2.5, 3.2, 11);
      path.addRect(9.3, 2.5, 3.2, 11);
      return path;
    case Picture::step:
      path = triangle(2.5, 2.5, 8, 11);
      path.addRect(11.2, 2.5, 2.4, 11);
      return path;
    case Picture::reset:
      return turnBack();
    case Picture::settings:
      return sliders();
  }
  return path;
}

QPixmap pixmapOf(Picture which, const QColor& color) {
  constexpr int kRatio = 2;
  QPixmap pixmap(kSize * kRatio, kSize * kRatio);
  pixmap.setDevicePixelRatio(kRatio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.fillPath(shape(which), color);
  return pixmap;
}

}  // namespace

QIcon picture(Picture which, const QPalette& palette) {
  QIcon icon;
  icon.addPixmap(pixmapOf(which, palette.color(QPalette::Active, QPalette::ButtonText)), QIcon::Normal);
  icon.addPixmap(pixmapOf(which, palette.color(QPalette::Disabled, QPalette::ButtonText)), QIcon::Disabled);
  return icon;
}

QIcon applicationIcon() {
  const std::string_view svg = asset("moescope.svg");
  QSvgRenderer renderer(QByteArray(svg.data(), static_cast<qsizetype>(svg.size())));
  QIcon icon;
  for (const int size : {16, 32, 48, 128}) {
    QPixmap pixmap(size, size);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    renderer.render(&painter);
    icon.addPixmap(pixmap);
  }
  return icon;
}

QPixmap chipPixmap(const QString& letter, const QColor& color, int height, qreal ratio) {
  QPixmap pixmap(std::lround(height * ratio), std::lround(height * ratio));
  pixmap.setDevicePixelRatio(ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(color);
  painter.setPen(Qt::NoPen);
  painter.drawRoundedRect(QRectF(0, 0, height, height), 3, 3);
  const QFont usual = semibold(bodyFont());
  painter.setFont(scaledFont(usual, height * 2.0 / 3 / QFontInfo(usual).pixelSize()));
  painter.setPen(textOn(color.rgb()));
  painter.drawText(QRectF(0, 0, height, height), Qt::AlignCenter, letter);
  return pixmap;
}

}  // namespace moescope
