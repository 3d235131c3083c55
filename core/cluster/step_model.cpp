#include "core/cluster/step_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/files/text/words.h"

namespace moescope {
namespace {

// Converts FLOPs to ms at TFLOP/s.
double compute_ms(double flops, double tflops) {
  return flops / (tflops * 1e9);
}

// Converts the rate of GEMMs measured one by one to the rate of GEMMs back to back.
double sustained(const HardwareProfile& hw, const HardwareNumber& rate) {
  return rate.value / hw.gemm_slowdown();
}

std::string rate_text(const HardwareProfile& hw, const HardwareNumber& rate) {
  std::string text = fmt::format("{:.0f} TFLOP/s ({}", sustained(hw, rate), provenance_name(rate.kind));
  if (hw.gemm_slowdown() != 1)
    text += fmt::format(" {:g} / {:g}, {}", rate.value, hw.gemm_slowdown(),
                        provenance_name(hw.sustained_gemm_slowdown.kind));
  return text + ")";
}

constexpr const char* kSlowdown = "slow-down of GEMMs back to back";
std::string fitted_slowdown(const HardwareProfile& hw) {
  return hw.gemm_slowdown() != 1 ? kSlowdown : "";
}

// Time of forward pass, recompute and backward pass together, in forward passes. The backward pass has two GEMMs for
// each GEMM of the forward pass; attention's backward pass takes 2.5 forward passes.
struct PassCounts {
  double gemm, attention, head;
};
PassCounts pass_counts(Recompute recompute) {
  const double recomputed_passes = recompute == Recompute::none ? 0 : 1;
  return {3 + recomputed_passes, 3.5 + recomputed_passes, 3};
}

void check(const StepConfig& c) {
  const auto fail = [](const std::string& what) { throw std::runtime_error(what); };
  if (c.mxfp8 && !c.hardware.has_mxfp8())
    fail("MXFP8 experts cannot be modelled on " + c.hardware.name + ": it has no MXFP8 tensor cores. Choose BF16");
  if (c.gpus < 1 || c.tp < 1 || c.pp < 1 || c.virtual_stages < 1 || c.microbatches < 1 || c.seq < 1 ||
      c.microbatch_sequences < 1)
    fail("gpus, tp, pp, virtual stages, microbatches and sequence lengths are 1 or more");
  if (c.gpus % (c.tp * c.pp)) fail(fmt::format("{} GPUs do not divide into TP {} x PP {}", c.gpus, c.tp, c.pp));
  if (c.traffic.ranks > c.gpus / c.pp || (c.gpus / c.pp) % c.traffic.ranks)
    fail(fmt::format("EP {} does not divide the {} GPUs of a pipeline stage", c.traffic.ranks, c.gpus / c.pp));
  if (!(c.overlap >= 0 && c.overlap <= 1)) fail("overlap is a share, 0 to 1");
}

// Returns the factor of the rest relative to 671B on B200. The rest grows with the activations, and its memory-bound
// share is inversely proportional to memory bandwidth.
double rest_scale(const StepConfig& c, const StepParameters& p) {
  static const ModelShape& reference = model_shape("671B");
  static const HardwareProfile b200 = hardware_profile("b200");
  const double activations = (c.shape.n_layers * c.shape.dim) / static_cast<double>(reference.n_layers * reference.dim);
  const double memory = b200.memory_copy.value / c.hardware.memory_copy.value;
  return activations * (1 + p.rest_with_memory * (memory - 1));
}

// Adds the parts to the step time in order, and notes to which layers each part belongs, because a stage of the
// pipeline has only its own layers.
class Parts {
 public:
  Parts(const StepConfig& config, const StepParameters& parameters, StepTime& time)
      : c_(config), p_(parameters), hw_(config.hardware), time_(time) {}

  void add_all() {
    add_compute();
    add_all_to_all();
    add_tensor_parallelism();
    // The rest counts as a part of the MoE layers: permuting, waiting for counts and, because of their many parameters,
    // optimizer and FSDP belong to them; only norms do not.
    add(kMoeLayer, {"rest", p_.rest_ms * rest_scale(c_, p_), Provenance::fitted,
                    fmt::format("norms, permuting, optimizer, FSDP, waiting for the host; fitted to 671B on B200, "
                                "scaled by layers x dim and, for {:.0f} % of it (assumed), by memory speed",
                                100 * p_.rest_with_memory),
                    "rest"});
    add_pipeline();
  }

 private:
  enum Where { kMoeLayer, kDenseLayer, kAnyLayer, kHead, kNumWheres };

  void add(Where place, StepPart part) {
    by_where_[place] += part.ms;
    time_.parts.push_back(std::move(part));
  }

  void add_compute() {
    const ForwardFlops flops = forward_flops(c_.shape, c_.seq);
    const PassCounts passes = pass_counts(c_.recompute);
    const double fullest = c_.traffic.expert_rows_max_over_mean;
    const double rate = sustained(hw_, hw_.grouped_gemm_bf16);
    const double bf16 = compute_ms(flops.routed_experts * passes.gemm, rate) * time_.duplication * fullest;
    std::string how =
        fmt::format("{:.1f} GFLOP x {:g} passes at {}, fullest rank {:.3f} of the mean", flops.routed_experts / 1e9,
                    passes.gemm, rate_text(hw_, hw_.grouped_gemm_bf16), fullest);
    if (time_.duplication > 1)
      how += fmt::format(", computed on {:g} tensor-parallel ranks (assumed)", time_.duplication);
    std::string fitted = fitted_slowdown(hw_);
    if (c_.mxfp8) {
      const double total = bf16 / p_.mxfp8_speedup, quantize = total * hw_.mxfp8_quantize_share.value;
      how += fmt::format(", MXFP8 {:.2f} times as fast (fitted)", p_.mxfp8_speedup);
      fitted += fitted.empty() ? "MXFP8 speed-up" : ", MXFP8 speed-up";
      add(kMoeLayer, {"routed experts", total - quantize, Provenance::modelled, how, fitted});
      add(kMoeLayer, {"quantization", quantize, Provenance::modelled,
                      fmt::format("{:.0f} % ({}) of the MXFP8 time, which holds the fitted speed-up",
                                  100 * hw_.mxfp8_quantize_share.value, provenance_name(hw_.mxfp8_quantize_share.kind)),
                      fitted});
    } else {
      add(kMoeLayer, {"routed experts", bf16, Provenance::modelled, how, fitted});
    }
    add_other_gemms(flops, passes);
    add(kAnyLayer,
        {"attention", compute_ms(flops.attention * passes.attention, hw_.attention_bf16.value), Provenance::modelled,
         fmt::format("{:.1f} GFLOP (causal) x {:g} passes at {:g} TFLOP/s ({})", flops.attention / 1e9,
                     passes.attention, hw_.attention_bf16.value, provenance_name(hw_.attention_bf16.kind)),
         ""});
  }

  void add_other_gemms(const ForwardFlops& flops, const PassCounts& passes) {
    const double rate = sustained(hw_, hw_.gemm_bf16);
    const auto ms = [&](double forward, double times) { return compute_ms(forward * times, rate); };
    const double moe = flops.shared_experts + flops.latent_projections + flops.router;
    const double other_flops = moe + flops.attention_linears + flops.dense_ffn;
    by_where_[kMoeLayer] += ms(moe, passes.gemm);
    by_where_[kDenseLayer] += ms(flops.dense_ffn, passes.gemm);
    by_where_[kAnyLayer] += ms(flops.attention_linears, passes.gemm);
    by_where_[kHead] += ms(flops.head, passes.head);
    time_.parts.push_back({"other GEMMs", ms(other_flops, passes.gemm) + ms(flops.head, passes.head),
                           Provenance::modelled,
                           fmt::format("{:.1f} GFLOP x {:g} passes and the head at {}", other_flops / 1e9, passes.gemm,
                                       rate_text(hw_, hw_.gemm_bf16)),
                           fitted_slowdown(hw_)});
  }

  void add_all_to_all() {
    const bool standard = c_.all_to_all == AllToAll::standard;
    const auto ops = all_to_all_ops(c_.payload, c_.recompute == Recompute::full);
    const double layers = c_.shape.n_moe_layers(), bytes = bytes_per_copy(ops, c_.shape.row_dim());
    const double per_copy = bytes * layers * time_.duplication;
    time_.network_bytes = per_copy * c_.traffic.network;
    time_.nvlink_bytes = per_copy * c_.traffic.nvlink;
    const LayerRates rates = layer_rates(c_, p_);
    const double network = per_copy * c_.traffic.network_fullest / (rates.network_GBps * 1e6);
    const double nvlink = per_copy * c_.traffic.nvlink_fullest / (rates.nvlink_GBps * 1e6);
    const double exposed = 1 - c_.overlap;
    const bool on_network = network >= nvlink;
    std::string how = fmt::format(
        "{} operations a layer, {:.2f} MB over the network at {:.1f} GB/s ({}), {:.2f} MB over NVLink at {:g} ({})",
        ops.size(), time_.network_bytes / 1e6, rates.network_GBps,
        standard ? "fitted" : provenance_name(hw_.deep_ep_network.kind), time_.nvlink_bytes / 1e6, rates.nvlink_GBps,
        provenance_name(hw_.nvlink_all_to_all.kind));
    how += on_network ? "; the network sets the time" : "; NVLink sets the time";
    if (c_.overlap > 0) how += fmt::format("; {:.0f} % hidden (assumed)", 100 * c_.overlap);
    add(kMoeLayer, {"all-to-all", std::max(network, nvlink) * exposed, Provenance::modelled, how,
                    standard && on_network ? "standard network rate" : ""});
    const double tokens = c_.seq * c_.microbatch_sequences;
    const double latency = layers * ops.size() * rates.latency_us / 1e3 * c_.tp / tokens;
    add(kMoeLayer,
        {"all-to-all latency", latency * exposed, Provenance::modelled,
         fmt::format("{:g} us an operation ({})", rates.latency_us, provenance_name(hw_.all_to_all_latency.kind)), ""});
    if (!standard && p_.deep_ep_overhead_ms > 0)
      add(kMoeLayer, {"DeepEP overhead", p_.deep_ep_overhead_ms, Provenance::assumed,
                      "what DeepEP takes beside its bytes, as H1 needs it", ""});
  }

  // Sequence parallelism: two all-gathers and two reduce-scatters per layer and pass, each of (tp - 1) / tp of the
  // rows.
  void add_tensor_parallelism() {
    if (c_.tp == 1) return;
    const double passes = c_.recompute == Recompute::none ? 2 : 3, operations = 4 * passes;
    const double row = 2.0 * c_.shape.dim;
    const double bytes = operations * c_.shape.n_layers * (c_.tp - 1) * row;
    const bool inside = c_.tp <= c_.traffic.ranks_per_node;
    const HardwareNumber& rate = inside ? hw_.nvlink_all_to_all : hw_.network;
    add(kAnyLayer,
        {"tensor parallelism", bytes / (rate.value * 1e6), Provenance::modelled,
         fmt::format("{:.0f} all-gathers and reduce-scatters a layer, {:.2f} MB over {} at {:g} GB/s ({})", operations,
                     bytes / 1e6, inside ? "NVLink" : "the network", rate.value, provenance_name(rate.kind)),
         ""});
  }

  void add_pipeline() {
    double sum = 0;
    for (const double ms : by_where_) sum += ms;
    const PipelineStretch stretch = pipeline();
    time_.stretch = stretch.total;
    time_.ms_per_token = sum * stretch.total;
    time_.tokens_per_second = 1e3 / time_.ms_per_token;
    if (c_.pp == 1) return;
    const std::string fitted = time_.fitted();  // all parts are stretched
    time_.parts.push_back({"uneven stages", sum * (stretch.imbalance - 1), Provenance::modelled,
                           fmt::format("the busiest of {} pipeline ranks has {:.3f} of the mean: {}", c_.pp,
                                       stretch.imbalance, layers_text()),
                           fitted});
    time_.parts.push_back(
        {"pipeline bubble", sum * (stretch.total - stretch.imbalance), Provenance::modelled,
         fmt::format("{} played out: {} ranks x {} stages, {} microbatches",
                     c_.virtual_stages > 1 ? "interleaved 1F1B" : "1F1B", c_.pp, c_.virtual_stages, c_.microbatches),
         fitted});
  }

  PipelineStretch pipeline() const {
    const double layers = c_.shape.n_layers, moe = c_.shape.n_moe_layers();
    const double dense = c_.shape.n_dense_layers;
    const double any = by_where_[kAnyLayer] / layers;
    const double a_moe = any + (moe > 0 ? by_where_[kMoeLayer] / moe : 0);
    const double a_dense = any + (dense > 0 ? by_where_[kDenseLayer] / dense : 0);
    std::vector<double> stages;
    for (const StageLayers& stage : layers_by_stage(c_.shape, c_.pp * c_.virtual_stages))
      stages.push_back(stage.dense * a_dense + stage.moe * a_moe + (stage.head ? by_where_[kHead] : 0));
    return pipeline_stretch(stages, c_.pp, c_.microbatches, pass_counts(c_.recompute).gemm - 1);
  }

  // Returns the number of MoE layers on the fullest rank and its mean over ranks, as text.
  std::string layers_text() const {
    std::vector<int> moe(c_.pp);
    const auto stages = layers_by_stage(c_.shape, c_.pp * c_.virtual_stages);
    for (std::size_t s = 0; s < stages.size(); ++s) moe[s % moe.size()] += stages[s].moe;
    return fmt::format("{} MoE layers at most, {:.2f} on average", *std::ranges::max_element(moe),
                       static_cast<double>(c_.shape.n_moe_layers()) / c_.pp);
  }

  const StepConfig& c_;
  const StepParameters& p_;
  const HardwareProfile& hw_;
  StepTime& time_;
  double by_where_[kNumWheres] = {};
};

std::pair<std::uint64_t, std::uint64_t> sum_and_largest(const std::vector<std::uint64_t>& values) {
  std::uint64_t sum = 0, largest = 0;
  for (const std::uint64_t value : values) {
    sum += value;
    largest = std::max(largest, value);
  }
  return {sum, largest};
}

// Largest number of simulated rounds. Each later round repeats the schedule and takes the time of the busiest rank.
constexpr int kPlayedRounds = 64;
constexpr double kUnfinished = -1;

struct Operation {
  bool forward;
  int stage, microbatch;
};

struct PipelineSchedule {
  int ranks, stages_per_rank, microbatches, round;  // `round`: microbatches per round

  int stages() const { return ranks * stages_per_rank; }
  int operations() const { return microbatches * stages_per_rank; }  // operations of a rank in each direction

  int warm_up(int rank) const {
    const int hops = ranks - 1 - rank;
    const int operations_before = stages_per_rank == 1 ? hops : (stages_per_rank - 1) * round + 2 * hops;
    return std::min(operations_before, operations());
  }

  // Returns the i-th forward or backward operation of a rank. In each round, all microbatches of the round pass one
  // stage of the rank, then the next stage.
  Operation operation(bool forward, int rank, int i) const {
    const int chunk = i / round % stages_per_rank;
    const int stage = (forward ? chunk : stages_per_rank - 1 - chunk) * ranks + rank;
    return {forward, stage, i / (round * stages_per_rank) * round + i % round};
  }

  // Returns the n-th operation of a rank: first forwards, then alternately a forward and a backward, then backwards.
  Operation at(int rank, int n) const {
    const int first = warm_up(rank), paired = 2 * (operations() - first);
    if (n < first) return operation(true, rank, n);
    if (n < first + paired) {
      const int turn = n - first;
      return turn % 2 == 0 ? operation(true, rank, first + turn / 2) : operation(false, rank, turn / 2);
    }
    return operation(false, rank, n - operations());
  }
};

PipelineSchedule schedule_of(int stages, int ranks, int microbatches) {
  const int stages_per_rank = stages / ranks;
  if (stages_per_rank == 1) return {ranks, 1, microbatches, microbatches};
  const int rounds = std::max(1, microbatches / ranks);
  if (microbatches % rounds)
    throw std::runtime_error(
        fmt::format("{} microbatches do not divide into {} rounds of an interleaved schedule over {} pipeline ranks; "
                    "take a multiple of {}",
                    microbatches, rounds, ranks, ranks));
  return {ranks, stages_per_rank, microbatches, microbatches / rounds};
}

// Simulates the schedule: each rank does its operations in order, each operation as soon as its inputs are ready.
class Play {
 public:
  Play(const PipelineSchedule& schedule, std::span<const double> forward_S, double backward)
      : schedule_(schedule),
        forward_S_(forward_S),
        backward_(backward),
        done_{std::vector<double>(static_cast<std::size_t>(schedule.stages()) * schedule.microbatches, kUnfinished),
              {}},
        next_(schedule.ranks, 0),
        free_(schedule.ranks, 0) {
    done_[1] = done_[0];
  }

  double makespan() {
    for (bool going = true; going;) {
      going = false;
      for (int rank = 0; rank < schedule_.ranks; ++rank)
        while (next_[rank] < 2 * schedule_.operations() && step(rank)) going = true;
    }
    return *std::ranges::max_element(free_);
  }

 private:
  double& done(bool forward, int stage, int microbatch) {
    return done_[forward][static_cast<std::size_t>(stage) * schedule_.microbatches + microbatch];
  }

  bool step(int rank) {
    const Operation o = schedule_.at(rank, next_[rank]);
    double ready = 0;
    if (o.forward && o.stage > 0) ready = done(true, o.stage - 1, o.microbatch);
    if (!o.forward) {
      ready = done(true, o.stage, o.microbatch);
      if (ready != kUnfinished && o.stage + 1 < schedule_.stages()) ready = done(false, o.stage + 1, o.microbatch);
    }
    if (ready == kUnfinished) return false;
    free_[rank] = std::max(free_[rank], ready) + forward_S_[o.stage] * (o.forward ? 1 : backward_);
    done(o.forward, o.stage, o.microbatch) = free_[rank];
    ++next_[rank];
    return true;
  }

  const PipelineSchedule& schedule_;
  std::span<const double> forward_S_;
  double backward_;
  std::vector<double> done_[2];  // [backward, forward][S, M]: end of each operation
  std::vector<int> next_;
  std::vector<double> free_;
};

}  // namespace

double StepTime::part_ms(std::string_view name) const {
  double ms = 0;
  for (const StepPart& part : parts)
    if (part.name == name) ms += part.ms;
  return ms;
}

std::string StepTime::fitted() const {
  std::string all;
  for (const StepPart& part : parts)
    if (!part.fitted.empty() && all.find(part.fitted) == std::string::npos)
      all += (all.empty() ? "" : ", ") + part.fitted;
  return all;
}

double token_duplication(const StepConfig& c, const StepParameters& p) {
  return p.hypothesis == Hypothesis::h2 && c.all_to_all == AllToAll::deep_ep ? c.tp : 1;
}

LayerRates layer_rates(const StepConfig& c, const StepParameters& p) {
  const HardwareProfile& hw = c.hardware;
  LayerRates rates;
  rates.network_GBps =
      c.all_to_all == AllToAll::standard ? p.standard_network_share * hw.network.value : hw.deep_ep_network.value;
  rates.nvlink_GBps = hw.nvlink_all_to_all.value;
  rates.latency_us = hw.all_to_all_latency.value;
  const double rows_per_token = c.shape.n_moe_layers() * c.shape.top_k;
  const double row_flops = forward_flops(c.shape, c.seq).routed_experts / rows_per_token;
  rates.expert_row_us =
      compute_ms(row_flops, sustained(hw, hw.grouped_gemm_bf16)) * 1e3 / (c.mxfp8 ? p.mxfp8_speedup : 1);
  return rates;
}

RoutingTraffic routing_traffic(const VolumeFrame& volume, std::int64_t tokens, AllToAll kind) {
  RoutingTraffic traffic;
  traffic.ranks = volume.ranks;
  traffic.ranks_per_node = volume.ranks_per_node;
  const std::vector<LinkCopies> links = copies_by_link(volume, kind);
  std::uint64_t network = 0, nvlink = 0;
  for (const LinkCopies& link : links) {
    network = std::max({network, link.network_out, link.network_in});
    nvlink = std::max({nvlink, link.nvlink_out, link.nvlink_in});
  }
  const LinkCopies sum = total(links);
  const auto per_token = [&](std::uint64_t copies) { return copies / static_cast<double>(tokens); };
  traffic.network = per_token(sum.network_out);
  traffic.nvlink = per_token(sum.nvlink_out);
  traffic.local = per_token(sum.local);
  traffic.network_fullest = per_token(network) * volume.ranks;
  traffic.nvlink_fullest = per_token(nvlink) * volume.ranks;
  const auto [received, most_received] = sum_and_largest(received_tokens(volume, kind));
  traffic.copies_per_token = per_token(received);
  traffic.received_max_over_mean = received ? per_token(most_received) * volume.ranks / traffic.copies_per_token : 1;
  const auto [rows, fullest] = sum_and_largest(received_tokens(volume, AllToAll::standard));
  traffic.expert_rows_max_over_mean = rows ? static_cast<double>(fullest) * volume.ranks / rows : 1;
  return traffic;
}

StepTime step_time(const StepConfig& c, const StepParameters& p) {
  check(c);
  StepTime time;
  time.duplication = token_duplication(c, p);
  Parts(c, p, time).add_all();
  return time;
}

std::vector<StageLayers> layers_by_stage(const ModelShape& shape, int stages) {
  const int layers = to_int(shape.n_layers), units = layers + 2;
  if (stages > units)
    throw std::runtime_error(fmt::format("{} pipeline stages are more than the {} layers, embedding and head of {}",
                                         stages, layers, shape.name));
  std::vector<StageLayers> result(stages);
  int layer = 0;
  for (int s = 0; s < stages; ++s) {
    StageLayers& stage = result[s];
    stage.head = s == stages - 1;
    int count = units / stages + (s < units % stages ? 1 : 0) - (s == 0 ? 1 : 0) - (stage.head ? 1 : 0);
    for (; count > 0; --count) ++(layer++ < shape.n_dense_layers ? stage.dense : stage.moe);
  }
  return result;
}

PipelineStretch pipeline_stretch(std::span<const double> forward_S, int ranks, int microbatches, double backward) {
  const PipelineSchedule full_schedule = schedule_of(to_int(forward_S.size()), ranks, microbatches);
  if (ranks == 1) return {};
  double busiest = 0;  // forward time of a microbatch on the busiest rank
  for (int rank = 0; rank < ranks; ++rank) {
    double work = 0;
    for (std::size_t s = rank; s < forward_S.size(); s += ranks) work += forward_S[s];
    busiest = std::max(busiest, work);
  }
  const double both = 1 + backward, mean = std::accumulate(forward_S.begin(), forward_S.end(), 0.0) / ranks;
  const int played = std::min(microbatches, kPlayedRounds * ranks);
  const PipelineSchedule schedule =
      played == microbatches ? full_schedule : schedule_of(full_schedule.stages(), ranks, played);
  const double time = Play(schedule, forward_S, backward).makespan() + (microbatches - played) * busiest * both;
  return {busiest / mean, time / (microbatches * mean * both)};
}

}  // namespace moescope
