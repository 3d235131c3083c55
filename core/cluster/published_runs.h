// Published training runs of DeepSeek-V3 671B, and the step model's fit to them.
//
// Three parameters are fitted to three runs on 256 B200s, so agreement with these is no validation;
// docs/cluster-model.md compares the model with two other runs. It is unknown which of two readings of the B200 runs is
// right (Hypothesis).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster/step_model.h"

namespace moescope {

StepConfig published_b200_config(bool mxfp8, AllToAll kind);  // 671B, 256 GPUs, forced routing, EP 32

// Returns the three parameters fitted to the three B200 runs; computed once.
const StepParameters& fit_to_published(Hypothesis hypothesis);

// An unknown number: the two ends of its range.
struct OpenNumber {
  const char* name;
  const char* unit;
  double slow, fast;
  const char* reason;
};
// Returns the unknown numbers. On the B200s of the fit, the three runs determine attention and latency; on other
// hardware, latency is unknown as well, and so is attention if its rate is assumed.
std::vector<OpenNumber> open_numbers(const StepConfig& config);

// Throughput with all unknown numbers at their slow ends, and at their fast ends.
struct Band {
  double low, high;  // tokens/s/GPU
};
Band throughput_band(const StepConfig& config, Hypothesis hypothesis);

// A step whose MoE layers have this traffic in equal parts: its time is the mean over the layers.
struct LayeredStep {
  StepConfig config;  // its traffic is not used
  std::vector<RoutingTraffic> traffic_L;
};

// Speed of a step over that of another, and its range over all combinations of the ends of the unknown numbers, each of
// which has the same value on both sides.
struct Speedup {
  double ratio = kNoValue;
  Band range{kNoValue, kNoValue};
};
Speedup speedup(const LayeredStep& to, const LayeredStep& from, Hypothesis hypothesis);  // of the same hardware
Band throughput_band(const LayeredStep& step, Hypothesis hypothesis);
double tokens_per_second(const LayeredStep& step, Hypothesis hypothesis);  // per GPU

// The step of a cluster with each kind of all-to-all and each format of the routed experts.
struct StepChoices {
  int ep = 0;
  double tokens_per_second[2][2] = {{kNoValue, kNoValue}, {kNoValue, kNoValue}};  // [AllToAll][is MXFP8], per GPU
  Speedup deep_ep;  // of DeepEP over the standard all-to-all, with the experts of the config
  Speedup mxfp8;    // of MXFP8 experts over BF16, with the all-to-all of the config; NaN on GPUs without MXFP8
};
// `traffic[AllToAll]`: traffic of each layer of one routing.
using TrafficByKind = std::array<std::vector<RoutingTraffic>, 2>;
StepChoices step_choices(const StepConfig& config, Hypothesis hypothesis, const TrafficByKind& traffic);

// The cost that the load of a router trained here would have for a published model on a cluster, and the effect of
// remedies.
//
// Tokens are routed by the load of the model's experts (stretch_load(), load_in_order()), copies are counted, and the
// step model computes tokens/s/GPU from them. All of this is modelled; only the imbalance of the load is measured.
// Legend: E experts, R = EP ranks.
struct LiveCase {
  int ep = 32;                // expert-parallel ranks
  bool node_limited = false;  // a token uses experts of shape.limited_groups groups only
  bool balanced = false;      // placement by the balancer, with one more expert slot per rank for replicas
  AllToAll all_to_all = AllToAll::deep_ep;
  Payload payload = Payload::bf16;
  // Experts of the run whose load it is; each stands for as many of the model's. If EP divides them, the balancer
  // places them, as in the panel Expert placement; else, and with 0, it places those of the model.
  int run_experts = 0;
};

struct LiveCost {
  LiveCase live_case;
  RoutingTraffic traffic;
  int gradients_sent = 0;        // experts of one layer whose gradients are sent (core/cluster/ranks/placement.h)
  double tokens_per_second = 0;  // per GPU
  Band band;                     // range due to numbers that the published runs do not determine
  double forced_tokens_per_second = 0;  // same case with forced round-robin and contiguous placement
  double lost() const { return 1 - tokens_per_second / forced_tokens_per_second; }
};

// `config` holds model, hardware, recipe and run; its traffic, way and payload are replaced by those of the cases.
// `load_E`: u of the model's experts; empty: a perfectly balanced load. Throws std::runtime_error as step_time does, or
// if a case's ranks do not divide the experts. A pure function; about 10 ms per case.
std::vector<LiveCost> live_costs(const StepConfig& config, Hypothesis hypothesis, std::span<const double> load_E,
                                 std::span<const LiveCase> cases, std::int64_t seed = 1);

// Costs of a step whose MoE layers have these costs in equal parts, [layers][cases]: times are means over the layers,
// and so are the figures of the traffic that tables show.
std::vector<LiveCost> mean_costs(std::span<const std::vector<LiveCost>> costs_of_layers);

// live_cases() returns these cases for every possible EP degree, with the config's all-to-all and payload: unchanged,
// node-limited, balanced placement, MXFP8 payload, and all three together.
inline constexpr int kLiveVariants = 5;
std::vector<LiveCase> live_cases(const StepConfig& config, int run_experts = 0);

// Returns the EP degrees 8 (one node), 16, 32, ..., at most 256 and at most the GPUs of a pipeline stage, that divide
// both the experts and these GPUs.
std::vector<int> possible_ep(const StepConfig& config);

}  // namespace moescope
