#include "widgets/plots/lane_chart.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/look/fitted_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kLaneSwatch = 16;

}  // namespace

void LaneChart::setLanes(QStringList names, std::vector<Interval> intervals, double end) {
  names_ = std::move(names);
  intervals_ = std::move(intervals);
  end_ = std::max(end, 1e-9);
}

std::vector<LaneChart::Activity> LaneChart::keyed() const {
  std::vector<Activity> those;
  for (int i = 0; i < to_int(activities_.size()); ++i)
    if (std::ranges::find(intervals_, i, &Interval::activity) != intervals_.end()) those.push_back(activities_[i]);
  return those;
}

QMargins LaneChart::margins() const {
  int widest = 0;
  for (const QString& name : names_) widest = std::max(widest, fontMetrics().horizontalAdvance(name));
  return {std::min(widest, width() / 4) + 12,
          keyBeside({}, labelsOf(keyed(), &Activity::name), kLaneSwatch).height + kSpace8, 14, axisLabelHeight()};
}

double LaneChart::laneHeight() const {
  return plotRect().height() / std::max(1.0, static_cast<double>(names_.size()));
}

void LaneChart::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  const QFontMetrics metrics(painter.font());
  const std::vector<Tick> ticks = linearTicks(0, end_, std::max(2, plot.width() / withType(70)));
  paintVerticalGrid(painter, axis(), ticks);
  paintBottomAxis(painter, axis(), ticks, captionForms(caption_));
  painter.setPen(palette().text().color());
  const int stride = labelStride(metrics.height(), laneHeight(), to_int(names_.size()));
  for (int lane = 0; lane < names_.size(); lane += stride) {
    const int y = static_cast<int>(plot.top() + (lane + 0.5) * laneHeight()) - metrics.height() / 2;
    painter.drawText(QRect(2, y, plot.left() - 8, metrics.height()), Qt::AlignRight | Qt::AlignVCenter,
                     elidedWords(names_[lane], metrics, plot.left() - 8));
  }
  const std::vector<Activity> those = keyed();
  paintKey(painter, {}, labelsOf(those, &Activity::name), kLaneSwatch, [&](std::size_t i, const QRect& place) {
    const QColor color = seriesColor(those[i].color, dark());
    painter.fillRect(place, QBrush(color, those[i].fill));
    painter.setPen(color);
    painter.drawRect(place.adjusted(0, 0, -1, -1));
  });
}

void LaneChart::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  const double lane_height = laneHeight();
  // Intervals narrower than a pixel are painted last, one pixel wide, and fainter the shorter they are, so that all of
  // them are visible.
  for (const bool narrow : {false, true}) {
    for (const Interval& interval : intervals_) {
      if (interval.activity < 0 || interval.activity >= to_int(activities_.size())) continue;
      const double left_edge = axis().toPixel(interval.from), wide = axis().toPixel(interval.to) - left_edge;
      if ((wide < 1) != narrow) continue;
      const Activity& activity = activities_[interval.activity];
      const double top = plot.top() + interval.lane * lane_height + lane_height * 0.08, high = lane_height * 0.84;
      QColor color = seriesColor(activity.color, dark());
      if (narrow) {
        color.setAlphaF(static_cast<float>(std::sqrt(std::max(wide, 0.0))));
        painter.fillRect(QRectF(std::floor(left_edge), top, 1, high), color);
      } else {
        painter.fillRect(QRectF(left_edge, top, wide, high), QBrush(color, activity.fill));
      }
    }
  }
}

QStringList LaneChart::readoutAt(QPoint position) const {
  const QRect plot = plotRect();
  if (!plot.contains(position)) return {};
  const int lane = static_cast<int>((position.y() - plot.top()) / laneHeight());
  const double time = axis().fromPixel(position.x());
  for (const Interval& interval : intervals_)
    if (interval.lane == lane && interval.from <= time && time < interval.to)
      return {names_.value(lane), activities_.at(interval.activity).name,
              QString("%1 to %2").arg(formatValue(interval.from, 5), formatValue(interval.to, 5))};
  return {};
}

}  // namespace moescope
