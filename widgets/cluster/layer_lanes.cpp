#include "widgets/cluster/layer_lanes.h"

#include <fmt/core.h>

#include <stdexcept>

namespace moescope {
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
  ValueTable table({{"rank"}, {"activity"}, {"pass"}, {"from", "us"}, {"to", "us"}});
  for (const RankInterval& interval : timeline_.intervals)
    table.add(interval.rank, std::string(rank_activity_name(interval.activity)),
              std::string(interval.backward ? "backward" : "forward"), interval.from_us, interval.to_us);
  return table;
}

}  // namespace moescope
