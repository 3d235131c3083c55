#include "core/cluster/node_health.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "core/io/words.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// The run gives up after this many times the time of a run without faults.
constexpr double kMaxStretch = 50;
constexpr std::size_t kMaxEvents = 100000;

void check_fault(const NodeHealthConfig& c, const Fault& fault) {
  if (fault.node < 0 || fault.node >= c.nodes)
    throw std::runtime_error(formatted("a fault on node %d, but nodes are 0 to %d", fault.node, c.nodes - 1));
  if (fault.step < 0) throw std::runtime_error("a fault before step 0");
  if (!(fault.speed > 0 && fault.speed <= 1))
    throw std::runtime_error(formatted("what is left of a speed is more than 0 and at most 1, not %g", fault.speed));
}

void check(const NodeHealthConfig& c) {
  const auto fail = [](const char* what) { throw std::runtime_error(what); };
  if (c.nodes < 1 || c.spares < 0) fail("nodes are 1 or more, spares 0 or more");
  if (c.steps < 1 || !(c.step_s > 0)) fail("steps and step time are more than 0");
  if (!(c.compute_share >= 0 && c.network_share >= 0 && c.compute_share + c.network_share <= 1))
    fail("the shares of compute and network in a step are 0 to 1, and so is their sum");
  if (c.checkpoint_every < 0) fail("steps between checkpoints are 0 (none) or more");
  for (const double seconds : {c.checkpoint_s, c.restore_s, c.restart_s, c.timeout_s, c.replace_s, c.mtbf_hours}) {
    if (!(seconds >= 0 && std::isfinite(seconds))) fail("times are finite and 0 or more");
  }
  if (!(c.active_check_s > 0)) fail("the time between checks is more than 0");
  for (const Fault& fault : c.faults) check_fault(c, fault);
}

class Simulation {
 public:
  explicit Simulation(const NodeHealthConfig& config)
      : c_(config), random_(config.seed, "node health"), spares_(config.spares), next_check_(config.active_check_s) {
    std::stable_sort(c_.faults.begin(), c_.faults.end(),
                     [](const Fault& a, const Fault& b) { return a.step < b.step; });
    draw_next_fault();
  }

  HealthOutcome run() {
    const double give_up = kMaxStretch * static_cast<double>(c_.steps) * c_.step_s;
    while (step_ < c_.steps && time_ < give_up && out_.events.size() < kMaxEvents) take_step();
    out_.finished = step_ >= c_.steps;
    finish();
    return std::move(out_);
  }

 private:
  void take_step() {
    collect_injected();
    const double end = time_ + step_time();
    while (next_random_ <= end) add_random();
    if (lost_) return fail_over();
    spend(step_ < furthest_ ? Activity::repeating
          : active_.empty() ? Activity::training
                            : Activity::slowed,
          step_time());
    ++step_;
    furthest_ = std::max(furthest_, step_);
    look_for_slow_nodes();
    const bool saved = checkpoint_if_due();
    if (to_drain_ && (saved || !c_.drain_at_checkpoint)) replace_slow_nodes();
    add_point();
  }

  // Every node waits for the slowest.
  double step_time() const {
    double gpu = 1, link = 1;
    for (const Fault& fault : active_) {
      double& slowest = fault.kind == FaultKind::slow_gpu ? gpu : link;
      slowest = std::min(slowest, fault.speed);
    }
    const double other_share = 1 - c_.compute_share - c_.network_share;
    return c_.step_s * (c_.compute_share / gpu + c_.network_share / link + other_share);
  }

  void collect_injected() {
    while (next_injected_ < c_.faults.size() && c_.faults[next_injected_].step <= step_) {
      add_fault(c_.faults[next_injected_++]);
    }
  }

  void draw_next_fault() {
    if (c_.mtbf_hours <= 0) return;
    const double mean = c_.mtbf_hours * 3600 / c_.nodes;
    next_random_ = (draws_ ? next_random_ : 0) - mean * std::log(1 - random_.uniform(draws_ * 4));
    ++draws_;
  }

  // Half of the random faults lose the node, the others slow a GPU or a link down to 40 to 90 % of its speed (assumed).
  void add_random() {
    const std::uint64_t n = (draws_ - 1) * 4;
    const double kind = random_.uniform(n + 1);
    Fault fault;
    fault.kind = kind < 0.5 ? FaultKind::lost_node : kind < 0.75 ? FaultKind::slow_gpu : FaultKind::degraded_link;
    fault.node = static_cast<int>(random_.bits(n + 2) % static_cast<std::uint64_t>(c_.nodes));
    fault.step = step_;
    fault.speed = 0.4 + 0.5 * random_.uniform(n + 3);
    add_fault(fault);
    draw_next_fault();
  }

  void add_fault(const Fault& fault) {
    ++out_.faults;
    if (fault.kind == FaultKind::lost_node) {
      lost_ = true;
      lost_node_ = fault.node;
      event(fault.node, formatted("node %d is lost", fault.node));
      return;
    }
    active_.push_back(fault);
    event(fault.node,
          formatted("%s on node %d: %.0f %% of its speed left", fault_name(fault.kind), fault.node, 100 * fault.speed));
  }

  void look_for_slow_nodes() {
    if (time_ < next_check_) return;
    next_check_ += c_.active_check_s * std::ceil((time_ - next_check_ + 1e-9) / c_.active_check_s);
    if (active_.empty()) return;
    to_drain_ = true;
    for (const Fault& fault : active_) {
      event(fault.node, formatted("check finds the %s of node %d: drained", fault_name(fault.kind), fault.node));
    }
  }

  bool checkpoint_if_due() {
    if (!c_.checkpoint_every || step_ % c_.checkpoint_every || step_ == c_.steps) return false;
    spend(Activity::checkpoint, c_.checkpoint_s);
    checkpoint_ = step_;
    return true;
  }

  // The current step is lost with the node. The other nodes wait for the lost one until their collectives time out.
  void fail_over() {
    spend(Activity::hanging, c_.timeout_s);
    std::erase_if(active_, [&](const Fault& fault) { return fault.node == lost_node_; });
    lost_ = false;
    take_spare(lost_node_);
    restart();
    add_point();
  }

  void replace_slow_nodes() {
    std::set<int> nodes;
    for (const Fault& fault : active_) nodes.insert(fault.node);
    active_.clear();
    to_drain_ = false;
    for (const int node : nodes) take_spare(node);
    restart();
  }

  // Replaces a node by a spare, which takes the number of the node; if there is no spare, waits for a new node.
  void take_spare(int node) {
    std::erase_if(arriving_, [&](double at) { return at <= time_ && ++spares_; });
    arriving_.push_back(time_ + c_.replace_s);
    if (spares_ == 0) {
      const auto first = std::min_element(arriving_.begin(), arriving_.end());
      event(node, formatted("no spare for node %d: waits for a new node", node));
      spend(Activity::waiting_for_spare, *first - time_);
      arriving_.erase(first);
      ++spares_;
    }
    --spares_;
    event(node, formatted("node %d replaced, %d spare%s left", node, spares_, spares_ == 1 ? "" : "s"));
  }

  void restart() {
    const std::int64_t lost = step_ - checkpoint_;
    out_.lost_steps += lost;
    step_ = checkpoint_;
    ++out_.restarts;
    spend(Activity::restarting, c_.restart_s + c_.restore_s);
    event(-1, formatted("resumed from step %lld, %lld step%s lost", static_cast<long long>(checkpoint_),
                        static_cast<long long>(lost), lost == 1 ? "" : "s"));
    if (active_.empty()) to_drain_ = false;
  }

  void spend(Activity activity, double seconds) {
    if (seconds <= 0) return;
    if (!out_.intervals.empty() && out_.intervals.back().activity == activity) {
      out_.intervals.back().to_s = time_ + seconds;
    } else {
      out_.intervals.push_back({activity, time_, time_ + seconds});
    }
    out_.seconds[static_cast<int>(activity)] += seconds;
    time_ += seconds;
  }

  void event(int node, std::string what) { out_.events.push_back({time_, step_, node, std::move(what)}); }

  void add_point() {
    const double kept_seconds = static_cast<double>(step_) * c_.step_s;
    out_.points.push_back({time_, step_, out_.lost_steps, time_ > 0 ? kept_seconds / time_ : 1});
  }

  void finish() {
    out_.wall_s = time_;
    out_.goodput = static_cast<double>(step_) * c_.step_s / time_;
  }

  NodeHealthConfig c_;
  RandomStream random_;
  HealthOutcome out_;
  double time_ = 0;
  std::int64_t step_ = 0, checkpoint_ = 0, furthest_ = 0;
  std::vector<Fault> active_;  // slow GPUs and links that are still in the run
  bool lost_ = false, to_drain_ = false;
  int lost_node_ = 0;
  int spares_;
  std::vector<double> arriving_;  // times at which new nodes join the pool
  double next_check_, next_random_ = kNever;
  std::uint64_t draws_ = 0;
  std::size_t next_injected_ = 0;
};

}  // namespace

const char* fault_name(FaultKind kind) {
  constexpr const char* kNames[] = {"slow GPU", "degraded link", "lost node"};
  return kNames[static_cast<int>(kind)];
}

const char* activity_name(Activity activity) {
  constexpr const char* kNames[] = {"training", "training slowed", "repeating lost steps", "checkpoint",
                                    "hanging",  "restarting",      "waiting for a spare"};
  return kNames[static_cast<int>(activity)];
}

HealthOutcome simulate_node_health(const NodeHealthConfig& config) {
  check(config);
  return Simulation(config).run();
}

std::int64_t best_checkpoint_every(const NodeHealthConfig& config) {
  check(config);
  if (config.mtbf_hours <= 0) return 0;
  const double mtbf_s = config.mtbf_hours * 3600 / config.nodes;
  return std::max<std::int64_t>(1, std::llround(std::sqrt(2 * config.checkpoint_s * mtbf_s) / config.step_s));
}

}  // namespace moescope
