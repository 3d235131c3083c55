#include "core/cluster/step_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "core/parallel/routing_patterns.h"

namespace moescope {
namespace {

constexpr double kDeepEpOverheadH1 = 0.20;  // ms per token, assumed
constexpr double kFittedNetworkGBps = 50;   // line rate of the runs that were fitted
// The band that the published runs leave open.
constexpr double kNetworkLow = 35, kNetworkHigh = 46, kSpeedupLow = 1.2, kSpeedupHigh = 1.5;
constexpr double kComputeLow = 0.50, kComputeHigh = 0.67;

constexpr const char* kBlog = "PyTorch blog on 41 % faster DeepSeek-V3 pre-training on 256 B200s (Nebius ml-cookbook)";
constexpr const char* kPullRequest = "torchtitan pull request 2107: 512 H100s, TP 1, PP 8, EP 32, sequences of 4096";
constexpr PublishedRun kB200Runs[] = {{"BF16, standard", 651, false, AllToAll::standard, kBlog},
                                      {"BF16, DeepEP", 859, false, AllToAll::deep_ep, kBlog},
                                      {"MXFP8, DeepEP", 918, true, AllToAll::deep_ep, kBlog}};
constexpr PublishedRun kH100Runs[] = {{"H100 BF16, standard", 346, false, AllToAll::standard, kPullRequest},
                                      {"H100 BF16, DeepEP", 579, false, AllToAll::deep_ep, kPullRequest}};

template <class... Values>
std::string text(const char* format, Values... values) {
  char buffer[240];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

// FLOPs to ms at TFLOP/s.
double compute_ms(double flops, const HardwareNumber& rate) {
  return flops / (rate.value * 1e9);
}

// A forward pass, its repetition and the backward: two GEMMs for one; attention's backward is 2.5 forward passes.
struct PassCounts {
  double gemm, attention, head;
};
PassCounts pass_counts(Recompute recompute) {
  const double again = recompute == Recompute::none ? 0 : 1;
  return {3 + again, 3.5 + again, 3};
}

void check(const StepConfig& c) {
  const auto fail = [](const std::string& what) { throw std::runtime_error(what); };
  if (c.mxfp8 && !c.hardware.has_mxfp8())
    fail("recipe mxfp8: " + c.hardware.name + " has no MXFP8 tensor cores (its profile has no mxfp8_grouped_speedup)");
  if (c.gpus < 1 || c.tp < 1 || c.pp < 1 || c.virtual_stages < 1 || c.microbatches < 1 || c.seq < 1 ||
      c.microbatch_sequences < 1)
    fail("gpus, tp, pp, virtual stages, microbatches and sequence lengths are 1 or more");
  if (c.gpus % (c.tp * c.pp)) fail(text("%d GPUs do not divide into TP %d x PP %d", c.gpus, c.tp, c.pp));
  if (c.traffic.ranks > c.gpus / c.pp || (c.gpus / c.pp) % c.traffic.ranks)
    fail(text("EP %d does not divide the %d GPUs of a pipeline stage", c.traffic.ranks, c.gpus / c.pp));
  if (!(c.overlap >= 0 && c.overlap <= 1)) fail("overlap is a share, 0 to 1");
}

// What has no part of its own goes with activations through memory.
double rest_scale(const StepConfig& c) {
  static const ModelShape& reference = model_shape("671B");
  static const HardwareProfile b200 = hardware_profile("b200");
  const double activations =
      static_cast<double>(c.shape.n_layers * c.shape.dim) / static_cast<double>(reference.n_layers * reference.dim);
  return activations * b200.memory_copy.value / c.hardware.memory_copy.value;
}

void add_compute(const StepConfig& c, const StepParameters& p, StepTime& time) {
  const HardwareProfile& hw = c.hardware;
  const ForwardFlops flops = forward_flops(c.shape, c.seq);
  const PassCounts passes = pass_counts(c.recompute);
  const double fullest = c.traffic.expert_rows_max_over_mean;
  const double bf16 = compute_ms(flops.routed_experts * passes.gemm, hw.grouped_gemm_bf16) * time.duplication * fullest;
  std::string how =
      text("%.1f GFLOP x %g passes at %g TFLOP/s (%s), fullest rank %.3f of the mean", flops.routed_experts / 1e9,
           passes.gemm, hw.grouped_gemm_bf16.value, provenance_name(hw.grouped_gemm_bf16.kind), fullest);
  if (time.duplication > 1) how += text(", computed %g times (H2)", time.duplication);
  if (c.mxfp8) {
    const double total = bf16 / p.mxfp8_speedup, quantize = total * hw.mxfp8_quantize_share.value;
    how += text(", MXFP8 %.2f times as fast (fitted)", p.mxfp8_speedup);
    time.parts.push_back({"routed experts", total - quantize, Provenance::modelled, how});
    time.parts.push_back({"quantization", quantize, Provenance::modelled,
                          text("%.0f %% of the MXFP8 time (published)", 100 * hw.mxfp8_quantize_share.value)});
  } else {
    time.parts.push_back({"routed experts", bf16, Provenance::modelled, how});
  }
  const double others = flops.shared_experts + flops.attention_linears + flops.dense_ffn + flops.router;
  time.parts.push_back({"other GEMMs", compute_ms(others * passes.gemm + flops.head * passes.head, hw.gemm_bf16),
                        Provenance::modelled,
                        text("%.1f GFLOP x %g passes and the head at %g TFLOP/s (%s)", others / 1e9, passes.gemm,
                             hw.gemm_bf16.value, provenance_name(hw.gemm_bf16.kind))});
  time.parts.push_back({"attention", compute_ms(flops.attention * passes.attention, hw.attention_bf16),
                        Provenance::modelled,
                        text("%.1f GFLOP (causal) x %g passes at %g TFLOP/s (%s)", flops.attention / 1e9,
                             passes.attention, hw.attention_bf16.value, provenance_name(hw.attention_bf16.kind))});
}

void add_all_to_all(const StepConfig& c, const StepParameters& p, StepTime& time) {
  const HardwareProfile& hw = c.hardware;
  const bool standard = c.way == AllToAll::standard;
  const auto ops = all_to_all_ops(c.payload, c.recompute == Recompute::full);
  double bytes_per_copy = 0;
  for (const AllToAllOp& op : ops) bytes_per_copy += static_cast<double>(bytes_per_token(op.payload, c.shape.dim));
  const double layers = static_cast<double>(c.shape.n_moe_layers());
  const double per_copy = bytes_per_copy * layers * time.duplication;
  time.network_bytes = per_copy * c.traffic.network;
  time.nvlink_bytes = per_copy * c.traffic.nvlink;
  const LayerRates rates = layer_rates(c, p);
  const double network = per_copy * c.traffic.network_fullest / (rates.network_GBps * 1e6);
  const double nvlink = per_copy * c.traffic.nvlink_fullest / (rates.nvlink_GBps * 1e6);
  const double exposed = 1 - c.overlap;
  const bool on_network = network >= nvlink;
  std::string how =
      text("%zu operations a layer, %.2f MB over the network at %.1f GB/s (%s), %.2f MB over NVLink at %g", ops.size(),
           time.network_bytes / 1e6, rates.network_GBps, standard ? "fitted" : provenance_name(hw.deep_ep_network.kind),
           time.nvlink_bytes / 1e6, rates.nvlink_GBps);
  how += on_network ? "; the network sets the time" : "; NVLink sets the time";
  if (c.overlap > 0) how += text("; %.0f %% hidden (assumed)", 100 * c.overlap);
  time.parts.push_back({"all-to-all", std::max(network, nvlink) * exposed, Provenance::modelled, how});
  const double tokens = static_cast<double>(c.seq * c.microbatch_sequences);
  const double latency = layers * static_cast<double>(ops.size()) * rates.latency_us / 1e3 * c.tp / tokens;
  time.parts.push_back(
      {"all-to-all latency", latency * exposed, Provenance::modelled,
       text("%g us an operation (%s)", rates.latency_us, provenance_name(hw.all_to_all_latency.kind))});
  if (!standard && p.deep_ep_overhead_ms > 0)
    time.parts.push_back({"DeepEP overhead", p.deep_ep_overhead_ms, Provenance::modelled, "assumed by H1"});
}

std::pair<std::uint64_t, std::uint64_t> sum_and_largest(const std::vector<std::uint64_t>& values) {
  std::uint64_t sum = 0, largest = 0;
  for (const std::uint64_t value : values) {
    sum += value;
    largest = std::max(largest, value);
  }
  return {sum, largest};
}

// Forced round-robin, counted. Tokens a rank: a multiple of every rank count in use, so that all ranks get the same.
RoutingTraffic forced_traffic(const ModelShape& shape, int ranks, AllToAll way) {
  const std::int64_t tokens = std::int64_t{ranks} * shape.n_experts;
  const int top_k = static_cast<int>(shape.top_k), n_experts = static_cast<int>(shape.n_experts);
  const auto topk = route_by_pattern({RoutingRule::round_robin}, tokens, top_k, n_experts);
  return routing_traffic(count_volumes(topk, top_k, n_experts, ranks, 8), tokens, way);
}

double part_ms(const StepTime& time, std::string_view name) {
  double ms = 0;
  for (const StepPart& part : time.parts)
    if (part.name == name) ms += part.ms;
  return ms;
}

}  // namespace

double StepTime::network_ms() const {
  double sum = 0;
  for (const StepPart& part : parts) {
    const std::string_view name = part.name;
    if (name.starts_with("all-to-all") || name == "DeepEP overhead") sum += part.ms;
  }
  return sum;
}

double token_duplication(const StepConfig& c, const StepParameters& p) {
  return p.hypothesis == Hypothesis::h2 && c.way == AllToAll::deep_ep ? c.tp : 1;
}

LayerRates layer_rates(const StepConfig& c, const StepParameters& p) {
  const HardwareProfile& hw = c.hardware;
  LayerRates rates;
  rates.network_GBps =
      c.way == AllToAll::standard ? p.standard_network_share * hw.network.value : hw.deep_ep_network.value;
  rates.nvlink_GBps = hw.nvlink_all_to_all.value;
  rates.latency_us = hw.all_to_all_latency.value;
  const double rows_per_token = static_cast<double>(c.shape.n_moe_layers() * c.shape.top_k);
  const double row_flops = forward_flops(c.shape, c.seq).routed_experts / rows_per_token;
  rates.expert_row_us = compute_ms(row_flops, hw.grouped_gemm_bf16) * 1e3 / (c.mxfp8 ? p.mxfp8_speedup : 1);
  return rates;
}

const char* hypothesis_name(Hypothesis hypothesis) {
  return hypothesis == Hypothesis::h1 ? "h1" : "h2";
}

Hypothesis hypothesis_named(std::string_view name) {
  for (const Hypothesis hypothesis : {Hypothesis::h1, Hypothesis::h2})
    if (name == hypothesis_name(hypothesis)) return hypothesis;
  throw std::runtime_error("hypothesis '" + std::string(name) + "': allowed are h1, h2");
}

const char* recompute_name(Recompute recompute) {
  static constexpr const char* kNames[] = {"none", "selective", "full"};
  return kNames[static_cast<int>(recompute)];
}

Recompute recompute_named(std::string_view name) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    if (name == recompute_name(recompute)) return recompute;
  throw std::runtime_error("recompute '" + std::string(name) + "': allowed are none, selective, full");
}

RoutingTraffic routing_traffic(const VolumeFrame& volume, std::int64_t tokens, AllToAll way) {
  RoutingTraffic traffic;
  traffic.ranks = volume.ranks;
  traffic.ranks_per_node = volume.ranks_per_node;
  const std::vector<LinkCopies> links = copies_by_link(volume, way);
  std::uint64_t network = 0, nvlink = 0;
  for (const LinkCopies& link : links) {
    network = std::max({network, link.network_out, link.network_in});
    nvlink = std::max({nvlink, link.nvlink_out, link.nvlink_in});
  }
  const LinkCopies sum = total(links);
  const auto per_token = [&](std::uint64_t copies) {
    return static_cast<double>(copies) / static_cast<double>(tokens);
  };
  traffic.network = per_token(sum.network_out);
  traffic.nvlink = per_token(sum.nvlink_out);
  traffic.network_fullest = per_token(network) * volume.ranks;
  traffic.nvlink_fullest = per_token(nvlink) * volume.ranks;
  const auto [received, most] = sum_and_largest(received_tokens(volume, way));
  traffic.copies_per_token = per_token(received);
  traffic.received_max_over_mean = received ? per_token(most) * volume.ranks / traffic.copies_per_token : 1;
  const auto [rows, fullest] = sum_and_largest(received_tokens(volume, AllToAll::standard));
  traffic.expert_rows_max_over_mean =
      rows ? static_cast<double>(fullest) * volume.ranks / static_cast<double>(rows) : 1;
  return traffic;
}

StepTime step_time(const StepConfig& c, const StepParameters& p) {
  check(c);
  StepTime time;
  time.duplication = token_duplication(c, p);
  add_compute(c, p, time);
  add_all_to_all(c, p, time);
  time.parts.push_back(
      {"rest", p.rest_ms * rest_scale(c), Provenance::fitted,
       "norms, permutes, optimizer, FSDP and tensor-parallel communication, waiting; fitted to 671B on "
       "B200, scaled by layers x dim and memory speed"});
  double sum = 0;
  for (const StepPart& part : time.parts) sum += part.ms;
  const double bubble = static_cast<double>(c.pp - 1) / (c.virtual_stages * c.microbatches);
  time.parts.push_back(
      {"pipeline bubble", sum * bubble, Provenance::modelled,
       text("(%d - 1) / (%d stages a rank x %d microbatches)", c.pp, c.virtual_stages, c.microbatches)});
  time.ms_per_token = sum * (1 + bubble);
  time.tokens_per_second = 1e3 / time.ms_per_token;
  return time;
}

std::span<const PublishedRun> published_b200_runs() {
  return kB200Runs;
}
std::span<const PublishedRun> published_h100_runs() {
  return kH100Runs;
}

StepConfig published_b200_config(bool mxfp8, AllToAll way) {
  StepConfig config;
  config.shape = model_shape("671B");
  config.hardware = hardware_profile("b200");
  config.mxfp8 = mxfp8;
  config.way = way;
  config.traffic = forced_traffic(config.shape, 32, way);
  config.gpus = 256;
  config.tp = 2;
  config.pp = 2;
  config.virtual_stages = 2;
  config.microbatches = 64;
  config.seq = 8192;
  return config;
}

StepConfig published_h100_config(AllToAll way) {
  StepConfig config = published_b200_config(false, way);
  config.hardware = hardware_profile("h100");
  config.gpus = 512;
  config.tp = 1;
  config.pp = 8;
  config.virtual_stages = 2;  // the schedule is not published: interleaved, two stages a rank, as in the B200 runs
  config.microbatches = 16;
  config.seq = 4096;
  return config;
}

// With t the three step times without their bubble and G, A, C the parts that are computed:
//   t2 - t3 = dup G (1 - 1/s);  t2 = C + rest + dup (G + A_deepep) + overhead;  t1 = C + rest + G + bytes / B.
StepParameters fit_to_published(Hypothesis hypothesis) {
  StepParameters fit;
  fit.hypothesis = hypothesis;
  fit.deep_ep_overhead_ms = hypothesis == Hypothesis::h1 ? kDeepEpOverheadH1 : 0;
  fit.standard_network_share = 1;
  const StepConfig standard = published_b200_config(false, AllToAll::standard);
  const StepTime t1 = step_time(standard, fit);
  const StepTime t2 = step_time(published_b200_config(false, AllToAll::deep_ep), fit);
  const double without_bubble = 1 - part_ms(t1, "pipeline bubble") / t1.ms_per_token;
  const auto published_ms = [&](int run) { return 1e3 / kB200Runs[run].tokens_per_second * without_bubble; };
  fit.mxfp8_speedup = 1 / (1 - (published_ms(1) - published_ms(2)) / part_ms(t2, "routed experts"));
  fit.rest_ms = published_ms(1) - t2.ms_per_token * without_bubble;
  const double computed = t1.ms_per_token * without_bubble - part_ms(t1, "all-to-all") + fit.rest_ms;
  const double network_ms = published_ms(0) - computed;
  fit.standard_network_share = t1.network_bytes / 1e6 / network_ms / standard.hardware.network.value;
  return fit;
}

Band throughput_band(const StepConfig& config, Hypothesis hypothesis) {
  StepParameters parameters = fit_to_published(hypothesis);
  const StepTime reference = step_time(published_b200_config(false, AllToAll::standard), parameters);
  const double computed = part_ms(reference, "other GEMMs") + part_ms(reference, "attention");
  const auto at = [&](double network_GBps, double speedup, double compute_ms) {
    parameters.standard_network_share = network_GBps / kFittedNetworkGBps;
    parameters.mxfp8_speedup = speedup;
    parameters.rest_ms = std::max(0.0, compute_ms - computed);
    return step_time(config, parameters).tokens_per_second;
  };
  return {at(kNetworkLow, kSpeedupLow, kComputeHigh), at(kNetworkHigh, kSpeedupHigh, kComputeLow)};
}

std::vector<BarComparison> compare_with_published(Hypothesis hypothesis) {
  const StepParameters fit = fit_to_published(hypothesis);
  std::vector<BarComparison> bars;
  const auto add = [&](const char* name, double published, const StepConfig& config, const char* standing) {
    bars.push_back(
        {name, published, step_time(config, fit).tokens_per_second, throughput_band(config, hypothesis), standing});
  };
  for (const PublishedRun& run : kB200Runs)
    add(run.name, run.tokens_per_second, published_b200_config(run.mxfp8, run.way), "fitted");
  add("MXFP8, standard", std::numeric_limits<double>::quiet_NaN(), published_b200_config(true, AllToAll::standard),
      "predicted");
  for (const PublishedRun& run : kH100Runs)
    add(run.name, run.tokens_per_second, published_h100_config(run.way), "check, not fitted");
  return bars;
}

}  // namespace moescope
