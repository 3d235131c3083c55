#include "widgets/cluster/layer_lanes.h"

#include <fmt/core.h>

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <stdexcept>

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

namespace {

constexpr double kMs = 1e-3;                  // ms in a us
constexpr double kMinNamedWaitShare = 0.005;  // share of the time below which waiting is not named

QString activityName(RankActivity activity) {
  return QString::fromUtf8(rank_activity_name(activity));
}

std::string titleOf(const StepConfig& config, int ranks) {
  return fmt::format("{}, {}, EP {}, {} all-to-all, {} experts", config.shape.name, config.hardware.name, ranks,
                     config.all_to_all == AllToAll::deep_ep ? "DeepEP" : "standard", config.mxfp8 ? "MXFP8" : "BF16");
}

}  // namespace

LayerLanes::LayerLanes(QWidget* parent) : LaneChart(parent) {
  setAccessibleName("A layer on every rank");
  setActivities({{activityName(RankActivity::dispatch), 1, Qt::SolidPattern},
                 {activityName(RankActivity::experts), 0, Qt::SolidPattern},
                 {activityName(RankActivity::combine), 2, Qt::Dense2Pattern},
                 {"waiting", 3, Qt::Dense6Pattern}});
  setCaption("forward, then backward pass of one microbatch, ms");
}

void LayerLanes::setAnswer(const ClusterAnswer& answer) {
  timeline_ = {};
  setNotice(QString::fromStdString(answer.problem));
  markDirty();
  if (!answer.problem.empty()) return;
  try {
    timeline_ = layer_timeline(answer.config, answer.parameters, answer.volume, answer.tokens);
  } catch (const std::runtime_error& error) {
    return setNotice(QString::fromUtf8(error.what()));
  }
  title_ = titleOf(answer.config, timeline_.ranks);
  std::vector<Interval> intervals;
  for (const RankInterval& interval : timeline_.intervals)
    intervals.push_back(
        {interval.rank, static_cast<int>(interval.activity), interval.from_us * kMs, interval.to_us * kMs});
  QStringList lanes;
  for (int rank = 0; rank < timeline_.ranks; ++rank) lanes << QString("rank %1").arg(rank);
  setLanes(std::move(lanes), std::move(intervals), timeline_.total_us * kMs);
}

QStringList LayerLanes::answers() const {
  if (!hasTimeline()) return {};
  const QString ms = QString("%1 ms per layer").arg(formatValue(timeline_.total_us * kMs, 3));
  if (timeline_.waiting_share < kMinNamedWaitShare) return {QString("Almost no time: %1").arg(ms), ms};
  const QString waits = QString("Ranks wait %1 of the time").arg(formatPercent(timeline_.waiting_share));
  const QString slowest = waits + QString(", most for rank %1").arg(timeline_.slowest);
  return {slowest + QStringLiteral("; ") + ms, slowest, waits};
}

ValueTable LayerLanes::table() const {
  ValueTable table({"rank", "activity", "pass", "from [us]", "to [us]"});
  for (const RankInterval& interval : timeline_.intervals)
    table.add(interval.rank, std::string(rank_activity_name(interval.activity)),
              std::string(interval.backward ? "backward" : "forward"), interval.from_us, interval.to_us);
  return table;
}

}  // namespace moescope
