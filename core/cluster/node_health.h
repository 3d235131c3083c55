// The cost of failing nodes for synchronous training, to first order in the time between failures (J. W. Young, CACM
// 17:9, 1974). A lost node stops the run, which repeats the steps since its last checkpoint.
#pragma once

#include <cmath>

namespace moescope {

// Times in seconds; all are assumed.
struct NodeHealth {
  int nodes = 32;
  double node_mtbf_s = 2000 * 3600.0;  // mean time between failures of one node
  double checkpoint_s = 60;            // time of saving a checkpoint, for which training waits
  double restart_s = 1080;             // from the failure to the first step: time-out 600, requeueing 180, loading 300

  double run_mtbf_s() const { return node_mtbf_s / nodes; }
  // Returns the interval of checkpoints that minimises the lost time.
  double best_interval_s() const { return std::sqrt(2 * checkpoint_s * run_mtbf_s()); }
  // Returns the share of the time that is spent on steps which are kept, with checkpoints every `interval_s`.
  double goodput(double interval_s) const {
    return 1 - checkpoint_s / interval_s - (interval_s / 2 + restart_s) / run_mtbf_s();
  }
};

}  // namespace moescope
