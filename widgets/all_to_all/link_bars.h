// Bars of bytes by link: over the network between nodes, and over NVLink inside them.
#pragma once

#include "core/history/history.h"
#include "core/parallel/volumes.h"
#include "widgets/plots/band_bars.h"

namespace moescope {

const VolumeFrame* volumeOf(const TelemetryFrame* frame, int layer);  // nullptr: the frame has none
QString rowWidth(const History& history);  // "hidden size 64"; for latent experts "latent size 32"; empty: not known
QString wayName(AllToAll way);
std::vector<BandBars::LegendEntry> linkLegend();
BandBars::Row linkBar(const QString& name, double network, double nvlink, const QString& figure);

}  // namespace moescope
