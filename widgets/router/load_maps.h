// Parts that the maps of the experts' load share: the order of the experts, readouts, and notes on columns.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/files/text/value_table.h"
#include "widgets/plots/time_heat_map.h"

namespace moescope {

class ExpertOrders {
 public:
  enum Order { by_id, by_load, by_cluster };

  // Returns the experts of a layer by id, from the most to the least loaded, or by co-activation; by id if the run has
  // no co-activation counts of the layer yet. The counts are the newest of the run, so that rows do not move while the
  // user moves the cursor through earlier steps.
  std::vector<int> orderOf(const History& history, int layer, std::span<const float> loads, int experts, int order);

 private:
  const std::vector<int>& clusters(const History& history, int layer);  // computed once for each newest frame

  std::shared_ptr<const TelemetryFrame> frame_;
  std::map<int, std::vector<int>> orders_;
};

inline constexpr const char* kUtilisationUnit = "fair shares";

// The experts of all routers of a frame, or of the router of one layer: tokens, load, gate and score mass, bias. A
// frame that is nullptr has no rows.
ValueTable expertTable(const Selection& selection, const TelemetryFrame* frame, int layer = kWholeRun);
// The readout of an expert; empty if no load is kept at this step.
QStringList expertReadout(const Selection& selection, std::int64_t step, int layer, int expert);
void noteColumns(TimeHeatMap* map, const QString& summary);  // "mean of 12 per column"

}  // namespace moescope
