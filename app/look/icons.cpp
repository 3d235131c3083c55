#include "app/look/icons.h"

#include <QEvent>
#include <QPainter>
#include <QPainterPath>
#include <QSvgRenderer>
#include <QWidget>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "core/files/assets.h"
#include "core/numerics/index.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

namespace {

constexpr int kPictureGrid = 16;  // units of the grid in which icons are drawn
constexpr double kPictureStroke = 1.6;

QPainterPath triangle(double x, double y, double w, double h) {
  QPainterPath path;
  path.moveTo(x, y);
  path.lineTo(x + w, y + h / 2);
  path.lineTo(x, y + h);
  path.closeSubpath();
  return path;
}

QPainterPath lines(std::initializer_list<QPolygonF> strokes) {
  QPainterPath path;
  for (const QPolygonF& stroke : strokes) path.addPolygon(stroke);
  return path;
}

QPainterPath turnBack() {  // an open ring with an arrow head
  QPainterPath path;
  path.arcMoveTo(3, 3, 10, 10, 140);
  path.arcTo(3, 3, 10, 10, 140, 310);
  path.addPolygon(QPolygonF({{2.6, 2.4}, {2.9, 6.4}, {6.9, 6.1}}));
  return path;
}

QPainterPath sliders() {
  QPainterPath path;
  for (const auto& [y, knob] : {std::pair(4.5, 10.5), std::pair(11.5, 5.5)}) {
    path.moveTo(1.5, y);
    path.lineTo(knob - 2, y);
    path.addEllipse(QPointF(knob, y), 2, 2);
    path.moveTo(knob + 2, y);
    path.lineTo(14.5, y);
  }
  return path;
}

QPainterPath glass() {
  QPainterPath path;
  path.addEllipse(QPointF(7, 7), 4.5, 4.5);
  path.moveTo(10.3, 10.3);
  path.lineTo(14, 14);
  return path;
}

class PaletteFollower : public QObject {
 public:
  PaletteFollower(QWidget* widget, std::function<void()> draw) : QObject(widget), draw_(std::move(draw)) {
    widget->installEventFilter(this);
  }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::PaletteChange) draw_();
    return QObject::eventFilter(watched, event);
  }

 private:
  std::function<void()> draw_;
};

using Points = QList<QPointF>;  // a named type, since two points in braces could also be a rectangle

QPainterPath shape(Picture which) {
  QPainterPath path;
  switch (which) {
    case Picture::menu:
      return lines({Points{{2, 4}, {14, 4}}, Points{{2, 8}, {14, 8}}, Points{{2, 12}, {14, 12}}});
    case Picture::play:
      return triangle(4, 2, 9.5, 12);
    case Picture::pause:
      path.addRect(3.5, 2.5, 3.2, 11);
      path.addRect(9.3, 2.5, 3.2, 11);
      return path;
    case Picture::step:
      path = triangle(2.5, 2.5, 8, 11);
      path.addRect(11.6, 2.5, 2, 11);
      return path;
    case Picture::reset:
      return turnBack();
    case Picture::live:
      return lines({QPolygonF({{1, 8.5}, {4, 8.5}, {6.3, 3}, {9.7, 13}, {12, 8.5}, {15, 8.5}})});
    case Picture::settings:
      return sliders();
    case Picture::plus:
      return lines({Points{{8, 2.5}, {8, 13.5}}, Points{{2.5, 8}, {13.5, 8}}});
    case Picture::close:
      return lines({Points{{3.5, 3.5}, {12.5, 12.5}}, Points{{12.5, 3.5}, {3.5, 12.5}}});
    case Picture::search:
      return glass();
    case Picture::folder:
      return lines({QPolygonF({{1.5, 13}, {1.5, 3}, {6, 3}, {7.5, 5}, {14.5, 5}, {14.5, 13}, {1.5, 13}})});
  }
  return path;
}

}  // namespace

QPixmap picturePixmap(Picture which, const QColor& color, int size) {
  constexpr int kRatio = 2;
  QPixmap pixmap(size * kRatio, size * kRatio);
  pixmap.setDevicePixelRatio(kRatio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.scale(1.0 * size / kPictureGrid, 1.0 * size / kPictureGrid);
  if (which == Picture::play || which == Picture::pause || which == Picture::step)
    painter.fillPath(shape(which), color);
  else
    painter.strokePath(shape(which), QPen(color, kPictureStroke, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  return pixmap;
}

// The icon of a checked button is in the accent color.
QIcon picture(Picture which, const QPalette& palette) {
  QIcon icon;
  icon.addPixmap(picturePixmap(which, palette.color(QPalette::Active, QPalette::ButtonText)), QIcon::Normal);
  icon.addPixmap(picturePixmap(which, palette.color(QPalette::Disabled, QPalette::ButtonText)), QIcon::Disabled);
  icon.addPixmap(picturePixmap(which, QColor(colors(palette).accent)), QIcon::Normal, QIcon::On);
  return icon;
}

void followPalette(QWidget* widget, std::function<void()> draw) {
  draw();
  new PaletteFollower(widget, std::move(draw));
}

QIcon applicationIcon() {
  const std::string_view svg = asset("moescope.svg");
  QSvgRenderer renderer(QByteArray(svg.data(), svg.size()));
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
  QPixmap pixmap(to_int(std::lround(height * ratio)), to_int(std::lround(height * ratio)));
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
