#include "core/cluster/published_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "core/cluster/kept_results.h"
#include "core/cluster/ranks/placement.h"
#include "core/cluster/ranks/routing_patterns.h"

namespace moescope {
namespace {

constexpr double kDeepEpOverheadH1 = 0.20;  // ms per token, assumed
constexpr double kDeepEpOverheadH2 = 0.10;  // ms per token, the largest that H2 allows; for the band

// Tokens/s per GPU of BF16 with the standard all-to-all, BF16 with DeepEP, and MXFP8 with DeepEP. Source: PyTorch blog
// on 41 % faster DeepSeek-V3 pre-training on 256 B200s (Nebius ml-cookbook).
constexpr double kB200Speeds[] = {651, 859, 918};

constexpr const char *kStandardNetwork = "standard network", *kDeepEpNetwork = "DeepEP network";
constexpr const char *kSpeedup = "MXFP8 speed-up", *kOtherCompute = "other compute";
constexpr const char *kRestWithMemory = "rest with memory", *kAttention = "attention", *kLatency = "latency";

// Counts the traffic of forced round-robin. The number of tokens per rank is a multiple of every rank count in use, so
// that all ranks receive the same number of tokens.
RoutingTraffic forced_traffic(const ModelShape& shape, int ranks, AllToAll kind) {
  static std::mutex mutex;
  static std::map<std::tuple<std::int64_t, std::int64_t, int, AllToAll>, RoutingTraffic> counted;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = counted.try_emplace({shape.n_experts, shape.top_k, ranks, kind});
  if (!is_new) return place->second;
  const std::int64_t tokens = std::int64_t{ranks} * shape.n_experts;
  const int top_k = to_int(shape.top_k), n_experts = to_int(shape.n_experts);
  const auto topk = route_by_pattern({RoutingRule::round_robin}, tokens, top_k, n_experts);
  return place->second = routing_traffic(count_volumes(topk, top_k, n_experts, ranks, 8), tokens, kind);
}

double line_rate() {
  static const double rate = hardware_profile("b200").network.value;
  return rate;
}

// Returns the sum of all parts except routed experts, all-to-all and the pipeline, in ms per token; it includes the
// fitted rest.
double other_ms(const StepTime& time) {
  return time.part_ms("other GEMMs") + time.part_ms("attention") + time.part_ms("tensor parallelism") +
         time.part_ms("rest");
}

// Let t1, t2 and t3 be the step times of the three runs without the pipeline's share; G (routed experts), A
// (all-to-all) and C (all other parts) the computed times; B the rate of the standard network; s the speed-up by MXFP8.
// Then
//     t2 - t3 = dup G (1 - 1/s);  t2 = C + rest + dup (G + A_deepep) + overhead;  t1 = C + rest + G + bytes / B.
// The pipeline's share depends slightly on the distribution of time over the parts, so the fit is repeated until
// nothing changes.
StepParameters fit(Hypothesis hypothesis, double deep_ep_overhead_ms) {
  constexpr int kMaxRounds = 100;
  const StepConfig configs[] = {published_b200_config(false, AllToAll::standard),
                                published_b200_config(false, AllToAll::deep_ep),
                                published_b200_config(true, AllToAll::deep_ep)};
  StepParameters p;
  p.hypothesis = hypothesis;
  p.deep_ep_overhead_ms = deep_ep_overhead_ms;
  for (int round = 0; round < kMaxRounds; ++round) {
    const StepParameters before = p;
    StepTime t[3];
    double published_ms[3], computed_ms[3];
    for (int i = 0; i < 3; ++i) {
      t[i] = step_time(configs[i], p);
      published_ms[i] = 1e3 / kB200Speeds[i] / t[i].stretch;
      computed_ms[i] = t[i].ms_per_token / t[i].stretch - t[i].part_ms("rest");
    }
    p.mxfp8_speedup = 1 / (1 - (published_ms[1] - published_ms[2]) / t[1].part_ms("routed experts"));
    p.rest_ms = published_ms[1] - computed_ms[1];
    const double network_ms = published_ms[0] - p.rest_ms - (computed_ms[0] - t[0].part_ms("all-to-all"));
    p.standard_network_share = t[0].network_bytes / 1e6 / network_ms / configs[0].hardware.network.value;
    const double change = std::fabs(p.mxfp8_speedup - before.mxfp8_speedup) + std::fabs(p.rest_ms - before.rest_ms) +
                          std::fabs(p.standard_network_share - before.standard_network_share);
    if (change < 1e-14) break;
  }
  return p;
}

// Ranges over the possible readings of the B200 runs: H1, H2, and H2 with the largest DeepEP overhead that it allows.
// Network rate in GB/s, other_ms() in ms per token.
struct Readings {
  double network_low, network_high, other_low, other_high;
};
const Readings& readings() {
  static const Readings found = [] {
    Readings r{1e9, 0, 1e9, 0};
    for (const auto& [hypothesis, overhead] :
         {std::pair{Hypothesis::h1, kDeepEpOverheadH1}, {Hypothesis::h2, 0.0}, {Hypothesis::h2, kDeepEpOverheadH2}}) {
      const StepParameters p = fit(hypothesis, overhead);
      const double network = p.standard_network_share * line_rate();
      const double other = other_ms(step_time(published_b200_config(false, AllToAll::standard), p));
      r = {std::min(r.network_low, network), std::max(r.network_high, network), std::min(r.other_low, other),
           std::max(r.other_high, other)};
    }
    return r;
  }();
  return found;
}

// Returns the tokens/s/GPU with these numbers at their fast ends if their bit is set, else at their slow ends.
double speed_at(const LayeredStep& step, Hypothesis hypothesis, std::span<const OpenNumber> numbers,
                unsigned fast_ends) {
  static const double computed = other_ms(step_time(published_b200_config(false, AllToAll::standard), {}));
  StepParameters p = fit_to_published(hypothesis);
  StepConfig c = step.config;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string_view name = numbers[i].name;
    const double value = fast_ends >> i & 1 ? numbers[i].fast : numbers[i].slow;
    if (name == kStandardNetwork) p.standard_network_share = value / line_rate();
    if (name == kDeepEpNetwork) c.hardware.deep_ep_network.value = value / line_rate() * c.hardware.network.value;
    if (name == kSpeedup) p.mxfp8_speedup = value;
    if (name == kOtherCompute) p.rest_ms = std::max(0.0, value - computed);
    if (name == kRestWithMemory) p.rest_with_memory = value;
    if (name == kAttention) c.hardware.attention_bf16.value = value;
    if (name == kLatency) c.hardware.all_to_all_latency.value = value;
  }
  double seconds = 0;
  for (const RoutingTraffic& traffic : step.traffic_L) {
    c.traffic = traffic;
    seconds += 1 / step_time(c, p).tokens_per_second;
  }
  return static_cast<double>(step.traffic_L.size()) / seconds;
}

// Number of routed tokens. With this number, sampling changes max/mean of 32 ranks by less than 1 %.
constexpr std::int64_t kTokens = 65536;
constexpr int kRanksPerNode = 8;
constexpr std::size_t kKeptCounts = 512;

using Routing = std::vector<std::int32_t>;

// The experts of a group share a node only if tokens are limited to groups.
Placement placement_of(const Routing& topk, const ModelShape& shape, const LiveCase& c) {
  const int n_experts = to_int(shape.n_experts);
  if (!c.balanced) return place_contiguous(n_experts, c.ep);
  const bool has_own_ranks = c.run_experts > 0 && n_experts % c.run_experts == 0 && c.run_experts % c.ep == 0;
  const int placed_experts = has_own_ranks ? c.run_experts : n_experts, width = n_experts / placed_experts;
  std::vector<std::uint64_t> load(placed_experts);
  for (const std::int32_t expert : topk) ++load[expert / width];
  const int n_groups = c.node_limited ? std::max(1, to_int(shape.n_groups)) : 1;
  return widened(place_balanced(load, c.ep, {placed_experts / c.ep + 1, n_groups, kRanksPerNode}), width);
}

RoutingTraffic traffic_of(const Routing& topk, const ModelShape& shape, const Placement& placement, AllToAll kind) {
  const int top_k = to_int(shape.top_k);
  const auto tokens = static_cast<std::int64_t>(topk.size()) / top_k;
  return routing_traffic(count_volumes(topk, top_k, placement, kRanksPerNode), tokens, kind);
}

class Costs {
 public:
  Costs(const StepConfig& config, Hypothesis hypothesis, std::span<const double> load_E, std::int64_t seed)
      : config_(config),
        hypothesis_(hypothesis),
        parameters_(fit_to_published(hypothesis)),
        load_(load_E.begin(), load_E.end()),
        seed_(seed) {
    if (load_.empty()) load_.assign(config.shape.n_experts, 1.0);
  }

  LiveCost operator()(const LiveCase& c) {
    const ModelShape& shape = config_.shape;
    if (c.ep < 1 || shape.n_experts % c.ep)
      throw std::runtime_error(fmt::format("EP {} does not divide the {} experts", c.ep, shape.n_experts));
    LiveCost cost;
    cost.live_case = c;
    StepConfig config = config_;
    config.all_to_all = c.all_to_all;
    config.payload = c.payload;
    // Counting takes nearly all the time, and its result holds for all GPUs and formats.
    static KeptResults<std::tuple<std::vector<double>, std::string, std::int64_t, int, int, bool, bool, AllToAll>,
                       std::pair<RoutingTraffic, int>>
        kept_counts(kKeptCounts);
    std::tie(cost.traffic, cost.gradients_sent) =
        kept_counts.get({load_, shape.name, seed_, c.ep, c.run_experts, c.node_limited, c.balanced, c.all_to_all}, [&] {
          const Routing& topk = routing(c.node_limited);
          const Placement placement = placement_of(topk, shape, c);
          return std::pair(traffic_of(topk, shape, placement, c.all_to_all), gradients_sent(placement));
        });
    config.traffic = cost.traffic;
    cost.tokens_per_second = step_time(config, parameters_).tokens_per_second;
    cost.band = throughput_band(config, hypothesis_);
    config.traffic = forced_traffic(shape, c.ep, c.all_to_all);
    cost.forced_tokens_per_second = step_time(config, parameters_).tokens_per_second;
    return cost;
  }

 private:
  const Routing& routing(bool node_limited) {
    Routing& topk = by_load_[node_limited];
    const ModelShape& shape = config_.shape;
    const int limited = node_limited ? to_int(shape.limited_groups) : 0;
    if (topk.empty()) topk = route_by_load(load_, kTokens, to_int(shape.top_k), to_int(shape.n_groups), limited, seed_);
    return topk;
  }

  const StepConfig& config_;
  Hypothesis hypothesis_;
  StepParameters parameters_;
  std::vector<double> load_;
  std::int64_t seed_;
  std::map<bool, Routing> by_load_;
};

}  // namespace

StepConfig published_b200_config(bool mxfp8, AllToAll kind) {
  StepConfig config;
  config.shape = model_shape("671B");
  config.hardware = hardware_profile("b200");
  config.mxfp8 = mxfp8;
  config.all_to_all = kind;
  config.traffic = forced_traffic(config.shape, 32, kind);
  config.gpus = 256;
  config.tp = 2;
  config.pp = 2;
  config.virtual_stages = 2;
  config.microbatches = 64;
  config.seq = 8192;
  return config;
}

const StepParameters& fit_to_published(Hypothesis hypothesis) {
  static const StepParameters fits[] = {fit(Hypothesis::h1, kDeepEpOverheadH1), fit(Hypothesis::h2, 0)};
  return fits[static_cast<int>(hypothesis)];
}

std::vector<OpenNumber> open_numbers(const StepConfig& config) {
  const Readings& r = readings();
  const bool is_b200 = config.hardware.name == hardware_profile("b200").name;
  std::vector<OpenNumber> open = {
      {kStandardNetwork, "GB/s", is_b200 ? r.network_low : line_rate() / 2, r.network_high,
       is_b200
           ? "what the readings of the B200 runs come to"
           : "fitted on one cluster; on another half of the line rate is assumed as the slow end (widened after the "
             "H100 pair had shown 35 to be too narrow)"},
      {kDeepEpNetwork, "GB/s", 0.75 * 57, line_rate(),
       "the figures of DeepEP V1 (docs/legacy.md) count copies to the own node: 57 GB/s at EP32 (combine), of which 3 "
       "of 4 nodes lie beyond the network, is 43; 51 GB/s at EP64 (dispatch), 7 of 8 nodes, is 45. The fast end is the "
       "line rate"},
      {kSpeedup, "x", 1.19, 1.60, "torchao's DeepSeek-V3 shapes, 1 to 8 groups"},
      {kOtherCompute, "ms/token", r.other_high, r.other_low,
       "what the readings of the B200 runs leave beside routed experts and all-to-all"},
      {kRestWithMemory, "share", 1, 0, "what of the rest waits for memory and what for the host is not known"}};
  if (is_b200) return open;
  const double peak = config.hardware.bf16_dense.value;
  if (config.hardware.attention_bf16.kind == Provenance::assumed)
    open.push_back({kAttention, "TFLOP/s", 0.35 * peak, 0.75 * peak,
                    "arXiv:2407.08608: FlashAttention-2 reaches 35 % and FlashAttention-3 75 % of an H100's peak"});
  open.push_back({kLatency, "us", 200, 50, "assumed between nodes; 77 to 90 were measured inside one"});
  return open;
}

Band throughput_band(const StepConfig& config, Hypothesis hypothesis) {
  return throughput_band(LayeredStep{config, {config.traffic}}, hypothesis);
}

Band throughput_band(const LayeredStep& step, Hypothesis hypothesis) {
  const std::vector<OpenNumber> open = open_numbers(step.config);
  return {speed_at(step, hypothesis, open, 0), speed_at(step, hypothesis, open, ~0U)};
}

double tokens_per_second(const LayeredStep& step, Hypothesis hypothesis) {
  return speed_at(step, hypothesis, {}, 0);
}

Speedup speedup(const LayeredStep& to, const LayeredStep& from, Hypothesis hypothesis) {
  const std::vector<OpenNumber> open = open_numbers(to.config);
  const auto ratio = [&](std::span<const OpenNumber> numbers, unsigned fast_ends) {
    return speed_at(to, hypothesis, numbers, fast_ends) / speed_at(from, hypothesis, numbers, fast_ends);
  };
  Speedup found{ratio({}, 0), {HUGE_VAL, 0}};
  for (unsigned fast_ends = 0; fast_ends < 1U << open.size(); ++fast_ends) {
    const double end = ratio(open, fast_ends);
    found.range = {std::min(found.range.low, end), std::max(found.range.high, end)};
  }
  return found;
}

StepChoices step_choices(const StepConfig& config, Hypothesis hypothesis, const TrafficByKind& traffic) {
  const auto step = [&](AllToAll kind, bool mxfp8) {
    LayeredStep chosen{config, traffic[static_cast<int>(kind)]};
    chosen.config.all_to_all = kind;
    chosen.config.mxfp8 = mxfp8;
    return chosen;
  };
  const bool has_mxfp8 = config.hardware.has_mxfp8();
  StepChoices choices;
  choices.ep = traffic.front().front().ranks;
  for (const AllToAll kind : {AllToAll::standard, AllToAll::deep_ep})
    for (int mxfp8 = 0; mxfp8 <= (has_mxfp8 ? 1 : 0); ++mxfp8)
      choices.tokens_per_second[static_cast<int>(kind)][mxfp8] = speed_at(step(kind, mxfp8 == 1), hypothesis, {}, 0);
  choices.deep_ep = speedup(step(AllToAll::deep_ep, config.mxfp8), step(AllToAll::standard, config.mxfp8), hypothesis);
  if (has_mxfp8) choices.mxfp8 = speedup(step(config.all_to_all, true), step(config.all_to_all, false), hypothesis);
  return choices;
}

std::vector<LiveCost> live_costs(const StepConfig& config, Hypothesis hypothesis, std::span<const double> load_E,
                                 std::span<const LiveCase> cases, std::int64_t seed) {
  Costs cost(config, hypothesis, load_E, seed);
  std::vector<LiveCost> costs;
  for (const LiveCase& c : cases) costs.push_back(cost(c));
  return costs;
}

std::vector<LiveCost> mean_costs(std::span<const std::vector<LiveCost>> costs_of_layers) {
  std::vector<LiveCost> means = costs_of_layers.front();
  for (std::size_t i = 0; i < means.size(); ++i) {
    const auto mean = [&](auto figure) {
      double sum = 0;
      for (const std::vector<LiveCost>& costs : costs_of_layers) sum += figure(costs[i]);
      return sum / static_cast<double>(costs_of_layers.size());
    };
    LiveCost& cost = means[i];
    cost.tokens_per_second = 1 / mean([](const LiveCost& c) { return 1 / c.tokens_per_second; });
    cost.band.low = 1 / mean([](const LiveCost& c) { return 1 / c.band.low; });
    cost.band.high = 1 / mean([](const LiveCost& c) { return 1 / c.band.high; });
    cost.gradients_sent = static_cast<int>(std::lround(mean([](const LiveCost& c) { return c.gradients_sent; })));
    cost.traffic.network = mean([](const LiveCost& c) { return c.traffic.network; });
    cost.traffic.copies_per_token = mean([](const LiveCost& c) { return c.traffic.copies_per_token; });
    cost.traffic.expert_rows_max_over_mean =
        mean([](const LiveCost& c) { return c.traffic.expert_rows_max_over_mean; });
  }
  return means;
}

std::vector<LiveCase> live_cases(const StepConfig& config, int run_experts) {
  std::vector<LiveCase> cases;
  for (const int ep : possible_ep(config)) {
    const LiveCase plain{
        .ep = ep, .all_to_all = config.all_to_all, .payload = config.payload, .run_experts = run_experts};
    cases.insert(cases.end(), kLiveVariants, plain);
    LiveCase* variants = &cases[cases.size() - kLiveVariants];
    variants[1].node_limited = variants[4].node_limited = true;
    variants[2].balanced = variants[4].balanced = true;
    variants[3].payload = variants[4].payload = Payload::mxfp8;
  }
  return cases;
}

std::vector<int> possible_ep(const StepConfig& config) {
  std::vector<int> degrees;
  const int stage = config.gpus / config.pp;
  for (int ep = kRanksPerNode; ep <= std::min<std::int64_t>(stage, 256); ep *= 2) {
    if (stage % ep == 0 && config.shape.n_experts % ep == 0) degrees.push_back(ep);
  }
  return degrees;
}

}  // namespace moescope
