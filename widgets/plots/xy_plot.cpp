#include "widgets/plots/xy_plot.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <ranges>

#include "widgets/look/fitted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kMarkRadius = 4.5;
constexpr int kLineSwatch = 24, kNearCurve = 30;
constexpr int kTagPlaces = 48;  // eight directions at six distances
constexpr double kTagSpace = 2, kDiamond = 1.6;

std::vector<QPointF> pointsOf(const QLineF& line, double spacing) {
  std::vector<QPointF> points;
  for (double along = 0; along < line.length(); along += spacing) points.push_back(line.pointAt(along / line.length()));
  return points;
}

double distanceTo(const QRectF& rect, const QPointF& point) {
  return std::hypot(std::max({rect.left() - point.x(), 0.0, point.x() - rect.right()}),
                    std::max({rect.top() - point.y(), 0.0, point.y() - rect.bottom()}));
}

}  // namespace

void XyPlot::setSeries(std::vector<Series> series) {
  series_ = std::move(series);
  double low_x = least_x_.low, high_x = least_x_.high, low_y = least_y_.low, high_y = least_y_.high;
  for (const Series& s : series_)
    for (const QPointF& point : s.points) {
      if (!std::isfinite(point.x()) || !std::isfinite(point.y())) continue;
      low_x = std::min(low_x, point.x());
      high_x = std::max(high_x, point.x());
      low_y = std::min(low_y, point.y());
      high_y = std::max(high_y, point.y());
    }
  const double room = 0.03 * (high_x - low_x);
  x_ = {low_x - room, high_x + room};
  y_ = niceRange(low_y, high_y, false);
}

QMargins XyPlot::margins() const {
  return {axisLabelWidth(), keyBeside(y_caption_, labelsOf(series_, &Series::label), kLineSwatch).height, 12,
          axisLabelHeight()};
}

void XyPlot::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  paintLeftAxis(painter, yAxis(), linearTicks(y_.low, y_.high, std::max(2, plot.height() / withType(28))), y_caption_);
  paintBottomAxis(painter, xAxis(), linearTicks(x_.low, x_.high, std::max(2, plot.width() / withType(60))),
                  captionForms(x_caption_));
  if (std::isfinite(reference_)) {
    const int y = to_int(std::lround(yAxis().toPixel(reference_)));
    painter.setPen(QPen(mutedText(palette()), 1, Qt::DashLine));
    painter.drawLine(plot.left(), y, plot.right(), y);
    painter.drawText(QRect(plot.left() + 4, y - metrics.height() - 1, plot.width() - 4, metrics.height()),
                     Qt::AlignLeft, elidedWords(reference_label_, metrics, plot.width() - 4));
  }
  painter.setRenderHint(QPainter::Antialiasing);
  paintKey(painter, y_caption_, labelsOf(series_, &Series::label), kLineSwatch,
           [&](std::size_t i, const QRectF& place) {
             const Series& s = series_[i];
             if (s.line != Qt::NoPen) {
               painter.setPen(QPen(seriesColor(s.color, dark()), lineWidth(), s.line));
               painter.drawLine(QLineF(place.left(), place.center().y(), place.right(), place.center().y()));
             }
             paintMark(painter, place.center(), s);
           });
  painter.setRenderHint(QPainter::Antialiasing, false);
}

double XyPlot::lineWidth() const {
  return kCurveWidth * typeScale(fontMetrics());
}

void XyPlot::paintMark(QPainter& painter, const QPointF& at, const Series& series) const {
  const QColor color = seriesColor(series.color, dark());
  const double r = kMarkRadius * typeScale(fontMetrics());
  painter.setPen(QPen(color, lineWidth()));
  painter.setBrush(series.mark == Mark::ring ? Qt::NoBrush : QBrush(color));
  if (series.mark == Mark::disc || series.mark == Mark::ring) painter.drawEllipse(at, r, r);
  if (series.mark == Mark::diamond) {
    painter.setPen(QPen(palette().text().color(), 1));
    const double d = kDiamond * r;
    painter.drawPolygon(QPolygonF({at + QPointF(0, -d), at + QPointF(d, 0), at + QPointF(0, d), at + QPointF(-d, 0)}));
  }
  painter.setBrush(Qt::NoBrush);
}

void XyPlot::paintData(QPainter& painter) {
  painter.setRenderHint(QPainter::Antialiasing);
  for (const Series& s : series_) {
    if (s.line != Qt::NoPen) {
      QPolygonF line;
      for (const QPointF& point : s.points) line << place(point);
      painter.setPen(QPen(seriesColor(s.color, dark()), lineWidth(), s.line));
      painter.drawPolyline(line);
    }
    if (s.mark != Mark::none)
      for (const QPointF& point : s.points) paintMark(painter, place(point), s);
  }
  paintTags(painter);
  painter.setRenderHint(QPainter::Antialiasing, false);
}

// Puts each text at the nearest place around its point that no mark, curve or other text covers, those of the last
// series first. A line leads to a text that is not beside its point.
void XyPlot::paintTags(QPainter& painter) const {
  const double radius = kMarkRadius * typeScale(fontMetrics()), height = fontMetrics().capHeight() + kSpace4;
  std::vector<QRectF> marks, texts, curves;
  for (const Series& s : series_)
    for (std::size_t i = 0; i < s.points.size(); ++i) {
      const QPointF at = place(s.points[i]);
      const double r = s.mark == Mark::diamond ? kDiamond * radius : radius;
      if (s.mark != Mark::none) marks.push_back(QRectF(-r, -r, 2 * r, 2 * r).translated(at));
      if (s.line == Qt::NoPen || i == 0) continue;
      for (const QPointF& on_curve : pointsOf(QLineF(place(s.points[i - 1]), at), radius))
        curves.push_back(QRectF(-1, -1, 2, 2).translated(on_curve));
    }
  if (std::isfinite(reference_)) curves.push_back(QRectF(plotRect().left(), yAxis().toPixel(reference_), width(), 1));
  const auto meets = [](const std::vector<QRectF>& rects, const QRectF& rect) {
    return std::ranges::any_of(rects, [&](const QRectF& other) { return other.intersects(rect); });
  };
  const auto is_free = [&](const QRectF& rect) {
    const QRectF room = rect.adjusted(-kTagSpace, -kTagSpace, kTagSpace, kTagSpace);
    return QRectF(plotRect()).contains(rect) && !meets(marks, rect) && !meets(curves, rect) && !meets(texts, room);
  };
  // A text beside its point is nearer to it than to other marks; the line to another text, which is beside no mark,
  // crosses neither marks nor texts.
  const auto is_nearest = [&](const QRectF& rect, const QPointF& at) {
    return std::ranges::none_of(marks, [&](const QRectF& mark) {
      return !mark.contains(at) && distanceTo(rect, mark.center()) < distanceTo(rect, at) + radius;
    });
  };
  const auto is_clear = [&](const QLineF& line, const QRectF& rect, const QPointF& at) {
    const QRectF room = rect.adjusted(-2 * radius, -2 * radius, 2 * radius, 2 * radius);
    return !meets(marks, room) && std::ranges::none_of(pointsOf(line, 1), [&](const QPointF& point) {
      const QRectF spot = QRectF(-1, -1, 2, 2).translated(point);
      return meets(texts, spot) || std::ranges::any_of(marks, [&](const QRectF& mark) {
               return !mark.contains(at) && mark.intersects(spot);
             });
    });
  };
  for (const Series& s : series_ | std::views::reverse)
    for (std::size_t i = 0; i < s.tags.size(); ++i) {
      const QPointF at = place(s.points[i]);
      const QSizeF size(fontMetrics().horizontalAdvance(s.tags[i]), height);
      for (int direction = 0; direction < kTagPlaces; ++direction) {
        const int ring = direction / 8;
        const double angle = 2 * std::numbers::pi * (direction % 8) / 8, distance = (2 + 2 * ring) * radius;
        const QPointF away(std::cos(angle), std::sin(angle));
        QRectF rect(QPointF(), size);
        rect.moveCenter(at + away * distance +
                        QPointF(std::round(away.x()) * size.width() / 2, std::round(away.y()) * height / 2));
        const QLineF leader(at + away * radius, at + away * (distance - radius / 2));
        if (!is_free(rect) || !(ring == 0 ? is_nearest(rect, at) : is_clear(leader, rect, at))) continue;
        texts.push_back(rect);
        painter.setPen(mutedText(palette()));
        if (ring > 0) painter.drawLine(leader);
        painter.setPen(palette().text().color());
        painter.drawText(rect.bottomLeft() - QPointF(0, kSpace4 / 2.0), s.tags[i]);
        break;
      }
    }
}

QStringList XyPlot::readoutAt(QPoint position) const {
  QStringList lines;
  double best = kNearCurve;
  for (const Series& s : series_)
    for (std::size_t i = 0; i < s.points.size(); ++i) {
      const double distance = QLineF(place(s.points[i]), position).length();
      if (distance >= best) continue;
      best = distance;
      lines = {s.label};
      if (i < s.names.size()) lines << s.names[i];
      lines << QString("%1; %2").arg(formatValue(s.points[i].x(), 4), formatValue(s.points[i].y(), 4));
    }
  return lines;
}

}  // namespace moescope
