// The order of a layer's experts by co-activation, for panels that show experts side by side. It uses the run's newest
// counts, so that rows do not move while the user scrubs through the past.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/history/history.h"

namespace moescope {

class ClusterOrders {
 public:
  // The order of a layer's experts; empty: the run has no co-activation counts of it yet. Computed once for each newest
  // frame.
  const std::vector<int>& of(const History& history, int layer);

 private:
  std::shared_ptr<const TelemetryFrame> frame_;
  std::map<int, std::vector<int>> orders_;
};

}  // namespace moescope
