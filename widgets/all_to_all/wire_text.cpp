#include "widgets/all_to_all/wire_text.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "core/cluster/ranks/volumes.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

// Returns the bytes that follow from the routing of all layers; nullopt if the step lacks volumes or the payload is not
// known.
std::optional<std::uint64_t> countedBytes(const TelemetryFrame& frame, const History& history) {
  const auto payload = history.settings_at(frame.step)->text(&PrecisionConfig::payload).value_or("fp32");
  const auto cells = frame.wire.ranks * static_cast<std::size_t>(frame.wire.ranks);
  std::uint64_t sum = 0;
  try {
    const RowBytes row = wire_row_bytes(payload, history.info().dim);
    for (const RouterFrame& router : frame.routers) {
      const VolumeFrame& volume = router.volume;
      const bool is_whole =
          volume.ranks == frame.wire.ranks && volume.copies_RR.size() == cells && volume.distinct_RR.size() == cells;
      if (!is_whole) return std::nullopt;
      const auto bytes_RR = wire_bytes(volume, frame.wire.over_nodes, row);
      sum = std::accumulate(bytes_RR.begin(), bytes_RR.end(), sum);
    }
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
  return frame.routers.empty() ? std::nullopt : std::optional(sum);
}

}  // namespace

QStringList wireForms(const TelemetryFrame& frame, const History& history) {
  const WireFrame& wire = frame.wire;
  const std::size_t ranks = std::max(0, wire.ranks);
  if (ranks < 2 || wire.sent_RR.size() != ranks * ranks || wire.all_to_all_ms_R.size() != ranks) return {};
  std::uint64_t sent_bytes = 0;
  for (std::size_t i = 0; i < wire.sent_RR.size(); ++i)
    if (i / ranks != i % ranks) sent_bytes += wire.sent_RR[i];
  const QString sent = QString("MPI sent %1 in this step").arg(formatBytes(sent_bytes));
  const auto counted = countedBytes(frame, history);
  QString count("not counted");
  if (counted)
    count = *counted == sent_bytes ? QString("as counted") : QString("counted: %1").arg(formatBytes(*counted));
  const double slowest_ms = *std::ranges::max_element(wire.all_to_all_ms_R);
  const QString with_count = sent + QStringLiteral(", ") + count;
  return {with_count + QString("; the slowest rank took %1 ms (measured)").arg(formatValue(slowest_ms, 3)), with_count,
          sent};
}

}  // namespace moescope
