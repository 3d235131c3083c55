// The order of a layer's experts by co-activation, for panels that stand experts side by side. It is that of the newest
// counts of the run, so that rows stay where they are while one scrubs through the past.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/telemetry/history/history.h"

namespace moescope {

class ClusterOrders {
 public:
  // Empty: the run has no co-activation counts (yet), or not of this layer. Computed once for each newest frame.
  const std::vector<int>& of(const History& history, int layer);

 private:
  std::shared_ptr<const TelemetryFrame> frame_;
  std::map<int, std::vector<int>> orders_;
};

}  // namespace moescope
