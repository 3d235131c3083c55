// The cost of failing nodes for a training run: a discrete-event model of faults, checks, drain, replacement and
// restart.
//
// Everything here is modelled. The sequence of events is Soperator's (Slurm on Kubernetes): a check drains the node,
// the run is requeued on a node of the spare pool and resumes from the last checkpoint, and the drained node is
// replaced in the pool. Training is synchronous, so the slowest node determines the time of a step. Deterministic:
// equal configs give equal outcomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moescope {

enum class FaultKind { slow_gpu, degraded_link, lost_node };
inline constexpr int kNumFaultKinds = 3;
const char* fault_name(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::lost_node;
  int node = 0;
  std::int64_t step = 0;  // the fault happens during this step
  double speed = 0.5;     // remaining speed of the GPU or the link, (0, 1]; ignored if the node is lost
};

// Defaults: 32 nodes and checks at Soperator's default intervals. The other values are assumptions.
struct NodeHealthConfig {
  int nodes = 32, spares = 2;
  std::int64_t steps = 2000;
  double step_s = 150;                 // a healthy step, from the step model
  double compute_share = 0.6;          // share of the step; a slow GPU stretches it
  double network_share = 0.2;          // share of the step; a degraded link stretches it
  std::int64_t checkpoint_every = 20;  // steps; 0: no checkpoints, a restart begins with step 0
  double checkpoint_s = 60;            // time of saving a checkpoint, for which training waits
  double restore_s = 300;              // time of loading a checkpoint and warming up
  double restart_s = 180;              // time of draining, requeueing, starting all processes
  double timeout_s = 600;              // time until the other nodes give up waiting for a lost node
  double active_check_s = 12 * 3600;   // interval of GPU and link benchmarks on every node
  double replace_s = 1800;             // time from drain until a new node is in the pool
  bool drain_at_checkpoint = true;     // a slow node stays until the next checkpoint; false: the run stops immediately
  double mtbf_hours = 0;               // mean time between failures of one node; 0: only `faults` happen
  std::int64_t seed = 1;               // seed of random faults
  std::vector<Fault> faults;
};

enum class Activity { training, slowed, repeating, checkpoint, hanging, restarting, waiting_for_spare };
inline constexpr int kNumActivities = 7;
const char* activity_name(Activity activity);

struct HealthInterval {
  Activity activity;
  double from_s, to_s;
};
struct HealthEvent {
  double at_s;
  std::int64_t step;
  int node;  // -1 if not about a node
  std::string text;
};
struct HealthPoint {
  double at_s;
  std::int64_t step;        // next step to take
  std::int64_t lost_steps;  // total of the steps that were taken and lost until now
  double goodput;           // (steps kept x healthy step time) / elapsed time
};

struct HealthOutcome {
  bool finished = true;  // false if the run gave up because faults undo steps faster than they are taken
  std::vector<HealthInterval> intervals;
  std::vector<HealthEvent> events;
  std::vector<HealthPoint> points;  // after every step
  double wall_s = 0;
  double seconds[kNumActivities] = {};
  std::int64_t lost_steps = 0;
  int restarts = 0, faults = 0;
  double goodput = 1;
};

// Throws std::runtime_error that names an impossible value (shares above 1, a fault on a node that does not exist).
HealthOutcome simulate_node_health(const NodeHealthConfig& config);

// Returns the number of steps between checkpoints that minimises the lost time at this MTBF: sqrt(2 x checkpoint time x
// MTBF of the run), at least one step (J. W. Young, CACM 17:9, 1974). 0 if there are no random faults and thus no best
// value.
std::int64_t best_checkpoint_every(const NodeHealthConfig& config);

}  // namespace moescope
