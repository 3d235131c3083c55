#include "widgets/all_to_all/link_bars.h"

#include <algorithm>
#include <cmath>

#include "core/frame/frame.h"

namespace moescope {
namespace {

using Fill = BandBars::Fill;
constexpr int kLinkNetworkColor = BandBars::kStrong, kLinkNvlinkColor = BandBars::kPlain;

}  // namespace

const VolumeFrame* volumeOf(const TelemetryFrame* frame, int layer) {
  const RouterFrame* router = find_router(frame, layer);
  return router && !router->volume.distinct_RR.empty() ? &router->volume : nullptr;
}

QString rowWidth(const History& history) {
  const bool latent = history.settings_at_start()->value(&ModelConfig::latent_dim).value_or(0) > 0;
  const int width = history.info().dim;
  if (width <= 0) return {};
  return (latent ? QString("latent size %1") : QString("hidden size %1")).arg(width);
}

QString wayName(AllToAll way) {
  return way == AllToAll::standard ? QString("standard") : QString("DeepEP");
}

std::vector<BandBars::LegendEntry> linkLegend() {
  return {{"network, between nodes", kLinkNetworkColor, Fill::solid, false},
          {"NVLink, inside a node", kLinkNvlinkColor, Fill::solid, false}};
}

BandBars::Row linkBar(const QString& name, double network, double nvlink, const QString& figure) {
  const std::vector<BandBars::Part> parts{{network, kLinkNetworkColor}, {nvlink, kLinkNvlinkColor}};
  return {name, parts, std::nan(""), std::nan(""), figure};
}

}  // namespace moescope
