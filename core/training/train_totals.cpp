#include "core/training/train_totals.h"

#include <fmt/core.h>

#include <numeric>

#include "core/cluster/ranks/volumes.h"
#include "core/config/config_field.h"

namespace moescope {

constexpr std::size_t kLastSteps = 20;

void LastSteps::add(const TelemetryFrame& frame) {
  losses.push_back(frame.ce_loss);
  if (losses.size() > kLastSteps) losses.pop_front();
  if (frame.routers.empty()) return;
  max_vio = max_vio_window = 0;
  for (const RouterFrame& router : frame.routers) {
    max_vio += router.max_vio / frame.routers.size();
    max_vio_window += router.max_vio_window / frame.routers.size();
  }
}

double LastSteps::mean_loss() const {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / losses.size();
}

void WireTotals::add(const TelemetryFrame& frame, const RunConfig& config) {
  const WireFrame& wire = frame.wire;
  if (wire.ranks == 0 || frame.routers.empty()) return;
  ranks = wire.ranks;
  const std::size_t size = ranks;
  for (std::size_t i = 0; i < size * size; ++i) {
    if (i / size == i % size) continue;  // copies that stay on their rank are not sent
    sent += wire.sent_RR[i];
  }
  const std::string payload = to_string(Setting(&PrecisionConfig::payload).field().get(config));
  const RowBytes row = wire_row_bytes(payload, config.model.row_dim());
  for (const RouterFrame& router : frame.routers)
    for (const std::uint64_t bytes : wire_bytes(router.volume, wire.over_nodes, row)) counted += bytes;
  for (const float rank_ms : wire.all_to_all_ms_R) ms += static_cast<double>(rank_ms) / ranks;
  ++steps;
}

std::string WireTotals::text() const {
  if (steps == 0) return {};
  return fmt::format("{:.0f} bytes a step between {} ranks measured, {:.0f} by the routing; {:.1f} ms a step",
                     sent / steps, ranks, counted / steps, ms / steps);
}

}  // namespace moescope
