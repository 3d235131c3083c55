#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/cli_reading.h"
#include "app/cli/command_line.h"
#include "core/cluster/model_shape.h"
#include "core/cluster/ranks/placement.h"
#include "core/cluster/ranks/volumes.h"
#include "core/cluster/step_model.h"
#include "core/files/output_guard.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/frame/provenance.h"
#include "core/frame/router_stats.h"

namespace moescope {
namespace {

constexpr std::int64_t kMaxSlots = std::int64_t{1} << 26;  // limit on token slots: 256 MiB of chosen experts

struct VolumesOptions : RoutingOptions {
  std::string model = "671B", topk, tensor = "topk_idx", recording, payload = "bf16";
  int dim = 0, experts = 0, top_k = 0, moe_layers = 0, groups = 0, limited_groups = 0;
  std::int64_t tokens_per_rank = 4096;
  bool no_recompute = false, json = false, matrices = false, overwrite = false;
  std::string plan_out;
  std::int64_t plan_until = -1;  // last step whose loads make the plan; -1: half of the steps
};

using Loads = std::vector<std::uint64_t>;  // by expert

constexpr double kLoadUnit = 1e6;  // of a fair share

// Mean load of each expert of a layer, in parts of its fair share; empty if the steps have no load.
Loads loads_in(const History& run, int layer, StepRange steps) {
  Loads loads;
  for (const float share : run.utilisation(layer, steps, 1, Summary::mean)) {
    if (!std::isfinite(share)) return {};
    loads.push_back(std::llround(kLoadUnit * share));
  }
  return std::ranges::any_of(loads, [](std::uint64_t load) { return load > 0; }) ? loads : Loads();
}

std::shared_ptr<const History> planned_run(const VolumesOptions& options) {
  const OpenedRuns opened = read_runs(options.recording, {});
  print_notes(opened);
  for (const auto& history : opened.histories)
    if (history->info().run == options.run) return history;
  const std::string runs =
      joined(opened.histories, ", ", [](const auto& run) { return std::to_string(run->info().run); });
  throw std::runtime_error(fmt::format("{}: has no run {}; allowed: {}", options.recording, options.run, runs));
}

// The steps from which the plan is made, and those after them.
std::pair<StepRange, StepRange> parts_of(const History& run, const VolumesOptions& options) {
  const StepRange steps = run.steps();
  const std::vector<std::int64_t> listed = run.steps_in(steps);
  if (listed.size() < 2)
    throw std::runtime_error(options.recording + ": has fewer than 2 steps; the plan is tried on later steps");
  const std::int64_t until = options.plan_until >= 0 ? options.plan_until : listed[listed.size() / 2 - 1];
  if (until < steps.first || until >= steps.last)
    throw std::runtime_error(
        fmt::format("--plan-until {}: allowed: {} to {}, so that steps are left to try the plan on", until, steps.first,
                    steps.last - 1));
  return {{steps.first, until}, {until + 1, steps.last}};
}

void write_placement_plan(const VolumesOptions& options) {
  guard_outputs({options.recording}, {{"--write-placement", options.plan_out}}, options.overwrite);
  const std::shared_ptr<const History> run = planned_run(options);
  const auto [plan_steps, later_steps] = parts_of(*run, options);
  const RunInfo& info = run->info();
  if (info.n_experts < options.ranks)
    throw std::runtime_error(fmt::format("--ranks {}: more than the {} experts", options.ranks, info.n_experts));
  ValueTable table({{.name = "layer", .key = "layer"},
                    {.name = "in order", .key = "plan_steps_in_order", .format = ".3f"},
                    {.name = "planned", .key = "plan_steps_planned", .format = ".3f"},
                    {.name = "in order, later", .key = "later_steps_in_order", .format = ".3f"},
                    {.name = "planned, later", .key = "later_steps_planned", .format = ".3f"},
                    {.name = "experts sent", .key = "experts_sent"}});
  std::map<int, std::vector<std::int32_t>> slots_by_layer;
  const Placement in_order = place_contiguous(info.n_experts, options.ranks);
  for (const int layer : info.moe_layers) {
    const Loads loads = loads_in(*run, layer, plan_steps), later = loads_in(*run, layer, later_steps);
    if (loads.empty() || later.empty()) continue;
    const Placement plan =
        place_balanced(loads, options.ranks, {options.slots, std::max(1, options.groups), options.ranks_per_node});
    table.add(layer, rank_imbalance(in_order, loads), rank_imbalance(plan, loads), rank_imbalance(in_order, later),
              rank_imbalance(plan, later), experts_sent(in_order, plan));
    slots_by_layer[layer] = experts_of_slots(plan);
  }
  if (slots_by_layer.empty())
    throw std::runtime_error(options.recording + ": has no load by expert in both parts of its steps");
  const std::size_t missing_layers = info.moe_layers.size() - slots_by_layer.size();
  if (missing_layers > 0)
    print_to(stderr, "{} of {} MoE layers have no load and keep their experts in order\n", missing_layers,
             info.moe_layers.size());
  const int layers = std::max(info.n_layers, slots_by_layer.rbegin()->first + 1);
  write_whole_file(options.plan_out, sglang_placement(slots_by_layer, layers, info.n_experts));
  Report report;
  report.value({.name = "plan made from steps", .key = "plan_steps"},
               fmt::format("{} to {}", plan_steps.first, plan_steps.last));
  report.value({.name = "tried on steps", .key = "later_steps"},
               fmt::format("{} to {}", later_steps.first, later_steps.last));
  report.value({.name = "slots of a rank", .key = "slots_per_rank"},
               std::ssize(slots_by_layer.begin()->second) / options.ranks);
  report.sentence("Load of the fullest rank, in units of the mean, with experts in their order and by the plan:");
  report.table("layers", table);
  print_report(report, options.json);
}

// The copies counted for the routing of one layer or, from a recording, the sum over several layers.
struct Counted {
  VolumeFrame volume;
  std::string routing;
  std::vector<std::uint32_t> copies_RE;  // copies by source rank and expert; empty: a recording does not hold them
  std::int64_t tokens = 0;               // tokens of all ranks, summed over the layers
  std::int64_t nowhere = 0;              // token slots without an expert
  int dim = 0, top_k = 0, n_experts = 0, moe_layers = 1;
};

ModelShape shape_of(const VolumesOptions& options) {
  ModelShape shape = model_shape(options.model);
  const auto take = [](std::int64_t& value, int stated) {
    if (stated > 0) value = stated;
  };
  take(shape.dim, options.dim);
  take(shape.n_experts, options.experts);
  take(shape.top_k, options.top_k);
  take(shape.n_groups, options.groups);
  take(shape.limited_groups, options.limited_groups);
  if (options.moe_layers > 0) shape.n_layers = shape.n_dense_layers + options.moe_layers;
  return shape;
}

Placement placement_of(const VolumesOptions& options, const std::vector<std::int32_t>& topk_TK,
                       const ModelShape& shape) {
  const int n_experts = to_int(shape.n_experts);
  if (options.ranks > n_experts && options.placement != "balanced")
    throw std::runtime_error(
        fmt::format("--ranks {} is more than the {} experts; allowed with --placement balanced --slots 1",
                    options.ranks, n_experts));
  return placement_named(options, topk_TK, shape);
}

// Returns a number of the file's metadata, `otherwise` if there is none. Throws std::runtime_error unless it is 1 to
// `most`.
std::int64_t metadata_number(const SafetensorsFile& file, const char* key, std::int64_t otherwise, std::int64_t max) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return otherwise;
  const std::int64_t value = std::atoll(found->second.c_str());
  if (value < 1 || value > max)
    throw std::runtime_error(
        fmt::format("{}: metadata '{}' is '{}'; allowed: 1 to {}", file.path(), key, found->second, max));
  return value;
}

// Reads an array [R, T, K] or [T, K]. Takes the number of experts, ranks and ranks per node from the file if the
// command line does not give them.
std::vector<std::int32_t> read_topk(const Command& command, VolumesOptions& options, ModelShape& shape) {
  const SafetensorsFile file(options.topk);
  const TensorView& tensor = file.at(options.tensor);
  const std::string place = fmt::format("{}: tensor '{}': ", options.topk, options.tensor);
  if (tensor.shape.size() < 2 || tensor.shape.back() == 0 || is_floating(tensor.dtype))
    throw std::runtime_error(place + "whole numbers of shape [tokens, top_k] or [ranks, tokens, top_k] are needed");
  if (tensor.shape.back() > 1024) throw std::runtime_error(place + "top_k is above 1024");
  shape.top_k = tensor.shape.back();
  if (options.top_k > 0 && options.top_k != shape.top_k)
    throw std::runtime_error(fmt::format("{}has top_k {}, --top-k says {}", place, shape.top_k, options.top_k));
  if (options.experts <= 0) shape.n_experts = metadata_number(file, "experts", shape.n_experts, 4096);
  if (!command.is_given("--ranks")) {
    const bool by_rank = tensor.shape.size() == 3 && tensor.shape[0] >= 1 && tensor.shape[0] <= 256;
    options.ranks = to_int(metadata_number(file, "ranks", by_rank ? tensor.shape[0] : options.ranks, 256));
  }
  if (!command.is_given("--ranks-per-node"))
    options.ranks_per_node = to_int(metadata_number(file, "ranks_per_node", options.ranks_per_node, 256));
  std::vector<std::int32_t> topk_TK;
  for (const std::int64_t expert : tensor.integers()) {
    if (expert < -1 || expert >= shape.n_experts)
      throw std::runtime_error(
          fmt::format("{}holds expert {}, but there are {} (--experts); -1 is a slot without an expert", place, expert,
                      shape.n_experts));
    topk_TK.push_back(to_int(expert));
  }
  if (topk_TK.empty()) throw std::runtime_error(place + "is empty");
  return topk_TK;
}

Counted count_routing(const Command& command, VolumesOptions& options) {
  ModelShape shape = shape_of(options);
  Counted counted;
  std::vector<std::int32_t> topk_TK;
  if (!options.topk.empty()) {
    command.refuse({"--tokens-per-rank"}, "cannot be used with --topk: the tokens are those of the file");
    topk_TK = read_topk(command, options, shape);
    counted.routing = options.topk;
  } else {
    if (options.tokens_per_rank > kMaxSlots / (options.ranks * shape.top_k))
      throw std::runtime_error("--tokens-per-rank: ranks x tokens x top_k is limited to 2^26");
    ChosenExperts chosen = choose_experts(options, shape, options.tokens_per_rank * options.ranks);
    topk_TK = std::move(chosen.topk_TK);
    counted.routing = chosen.name;
  }
  counted.top_k = to_int(shape.top_k);
  counted.n_experts = to_int(shape.n_experts);
  counted.dim = to_int(shape.dim);
  counted.moe_layers = to_int(shape.n_moe_layers());
  counted.tokens = static_cast<std::int64_t>(topk_TK.size()) / counted.top_k;
  counted.volume = count_volumes(topk_TK, counted.top_k, placement_of(options, topk_TK, shape), options.ranks_per_node);
  counted.nowhere = std::ranges::count(topk_TK, -1);
  counted.copies_RE = count_by_expert(topk_TK, counted.top_k, counted.n_experts, options.ranks);
  return counted;
}

// Uses the ranks and the placement of the recording, which holds counts but not the experts of each token.
Counted count_recording(const VolumesOptions& options) {
  const auto [info, frame] = recorded_step(options.recording, options.run, options.step);
  auto [volume, layers] = sum_of_layers(frame->routers, options.layer);
  if (layers == 0)
    throw std::runtime_error(options.layer >= 0
                                 ? fmt::format("{}: layer {} has no volumes", options.recording, options.layer)
                                 : fmt::format("{}: was recorded without volumes", options.recording));
  Counted counted;
  counted.volume = std::move(volume);
  counted.routing = fmt::format("{}, run {}, step {}", options.recording, options.run, frame->step);
  if (layers > 1) counted.routing += fmt::format(", mean of {} layers", layers);
  counted.tokens = info.tokens_per_step * layers;
  counted.dim = options.dim > 0 ? options.dim : info.dim;
  counted.top_k = info.top_k;
  counted.n_experts = info.n_experts;
  counted.moe_layers = to_int(info.moe_layers.size());
  return counted;
}

// One copy costs bytes_per_token() on each link that it takes.
ValueTable operation_table(const RoutingTraffic& traffic, const std::vector<AllToAllOp>& ops, int dim) {
  ValueTable table({{.name = "bytes per token", .key = "name"},
                    {.name = "as", .key = "payload"},
                    {.name = "of a copy", .key = "bytes_per_copy", .format = ".0f"},
                    {.name = "sent", .key = "bytes_per_token", .format = ".0f"},
                    {.name = "NVLink", .key = "nvlink_bytes_per_token", .format = ".0f"},
                    {.name = "network", .key = "network_bytes_per_token", .format = ".0f"},
                    {.name = "NVLink of the busiest rank", .format = ".0f"},
                    {.name = "network of the busiest rank", .format = ".0f"}});
  for (const AllToAllOp& op : ops) {
    const double bytes = bytes_per_token(op.payload, dim);
    table.add(op.name, payload_name(op.payload), bytes, traffic.copies_per_token * bytes, traffic.nvlink * bytes,
              traffic.network * bytes, traffic.nvlink_fullest * bytes, traffic.network_fullest * bytes);
  }
  return table;
}

void add_way(Report& report, const Counted& counted, AllToAll all_to_all, const std::vector<AllToAllOp>& ops) {
  const RoutingTraffic traffic = routing_traffic(counted.volume, counted.tokens, all_to_all);
  const std::string name = all_to_all_name(all_to_all), copies = name + ".copies_per_token.";
  const double megabytes = 1e-6 * (bytes_per_copy(ops, counted.dim) * counted.moe_layers);
  report.sentence("");
  report.sentence(name + " all-to-all");
  report.value({.name = "copies per token", .digits = 6, .key = copies + "sent"}, traffic.copies_per_token);
  report.value({.key = copies + "local"}, traffic.local);
  report.value({.key = copies + "nvlink"}, traffic.nvlink);
  report.value({.key = copies + "network"}, traffic.network);
  report.value({.key = name + ".busiest_rank_copies_per_token.nvlink"}, traffic.nvlink_fullest);
  report.value({.key = name + ".busiest_rank_copies_per_token.network"}, traffic.network_fullest);
  report.value({.name = "received rows, max/mean", .key = name + ".received_max_over_mean", .format = ".3f"},
               traffic.received_max_over_mean);
  report.value({.name = fmt::format("NVLink, all operations of {} layers", counted.moe_layers), .unit = "MB per token"},
               traffic.nvlink * megabytes);
  report.value(
      {.name = fmt::format("network, all operations of {} layers", counted.moe_layers), .unit = "MB per token"},
      traffic.network * megabytes);
  report.table(name + ".operations", operation_table(traffic, ops, counted.dim));
}

Report report_of(const Counted& counted, const std::vector<AllToAllOp>& ops, bool has_matrices) {
  const VolumeFrame& volume = counted.volume;
  Report report;
  report.value({.name = "all figures", .key = "kind"}, provenance_name(Provenance::counted));
  report.value({.name = "routing", .key = "routing"}, counted.routing);
  report.value({.name = "ranks", .key = "ranks"}, volume.ranks);
  report.value({.name = "ranks per node", .key = "ranks_per_node"}, volume.ranks_per_node);
  report.value({.name = "tokens", .key = "tokens"}, counted.tokens);
  report.value({.name = "values of a token's row", .key = "dim"}, counted.dim);
  report.value({.name = "experts", .key = "n_experts"}, counted.n_experts);
  report.value({.name = "experts of a token", .key = "top_k"}, counted.top_k);
  report.value({.name = "MoE layers", .key = "moe_layers"}, counted.moe_layers);
  report.value({.name = "slots without an expert (-1), sent nowhere", .key = "slots_sent_nowhere"}, counted.nowhere);
  report.value({.name = "ranks of a token", .key = "ranks_per_token", .format = ".3f"},
               ranks_per_token(volume, counted.tokens));
  report.value({.name = "nodes of a token", .key = "nodes_per_token", .format = ".3f"},
               nodes_per_token(volume, counted.tokens));
  for (const AllToAll all_to_all : {AllToAll::standard, AllToAll::deep_ep}) add_way(report, counted, all_to_all, ops);
  const double saved = saved_by_deepep(volume);
  report.sentence("");
  report.value({.name = std::isnan(saved) ? "" : "saved by DeepEP, of the network bytes of the standard dispatch",
                .unit = "share",
                .digits = 3,
                .key = "saved_by_deepep"},
               saved);
  if (has_matrices) {
    report.json("copies_RR", volume.copies_RR);
    report.json("distinct_RR", volume.distinct_RR);
    report.json("nodes_RN", volume.nodes_RN);
    if (!counted.copies_RE.empty()) report.json("copies_RE", counted.copies_RE);
  }
  return report;
}

// Refuses options that would have no effect.
void check_options(const Command& command, VolumesOptions& options) {
  if (options.routing.ends_with(".safetensors")) {
    if (!options.topk.empty() || !options.recording.empty())
      throw std::runtime_error("--routing " + options.routing + " cannot be used with --topk or --recording");
    options.topk = options.routing;
  }
  if (!options.recording.empty())
    command.refuse({"--model", "--experts", "--top-k", "--moe-layers", "--groups", "--limited-groups", "--ranks",
                    "--ranks-per-node", "--placement", "--slots", "--tokens-per-rank", "--seed"},
                   "cannot be used with --recording, whose counts are those of its own run; --routing " +
                       options.recording + " routes any shape over any ranks by the load of its router");
  else if (!options.names_file() || !options.topk.empty())
    command.refuse({"--run", "--step", "--layer"}, "needs --recording, or a recording as --routing");
  if (options.topk.empty()) command.refuse({"--tensor"}, "needs --topk FILE.safetensors");
  if (!options.json) command.refuse({"--matrices"}, "needs --json");
  command.refuse({"--plan-until", "--overwrite"}, "needs --write-placement");
}

void write_plan(const Command& command, const VolumesOptions& options) {
  command.refuse({"--model", "--dim", "--experts", "--top-k", "--moe-layers", "--limited-groups", "--routing", "--topk",
                  "--tensor", "--step", "--layer", "--placement", "--tokens-per-rank", "--payload", "--seed",
                  "--no-recompute", "--matrices"},
                 "cannot be used with --write-placement, which places the experts of every layer by its loads");
  if (options.recording.empty()) throw std::runtime_error("--write-placement: needs --recording, whose loads it uses");
  write_placement_plan(options);
}

void print_volumes(const Command& command, VolumesOptions options) {
  if (!options.plan_out.empty()) return write_plan(command, options);
  check_options(command, options);
  const Payload payload = payload_name.get("payload", options.payload);
  const Counted counted = options.recording.empty() ? count_routing(command, options) : count_recording(options);
  print_report(report_of(counted, all_to_all_ops(payload, !options.no_recompute), options.matrices), options.json);
}

void add_options(Command& command, VolumesOptions& o) {
  constexpr int kMax = 1 << 20;
  command.option("--model", o.model, "Shape to start from: 671B, 236B, 16B or debugmodel").shows_default();
  command.option("--dim", o.dim, "Values of a token's row").range(1, kMax);
  command.option("--experts", o.experts, "Routed experts").range(1, 4096);
  command.option("--top-k", o.top_k, "Experts of a token").range(1, 1024);
  command.option("--moe-layers", o.moe_layers, "MoE layers").range(1, 10000);
  command.option("--groups", o.groups, "Routing groups").range(1, kMax);
  command.option("--limited-groups", o.limited_groups, "Groups a token may choose from").range(1, kMax);
  const Option routing = add_routing_options(
      command, o,
      {.routing = "; or a .safetensors as --topk takes", .layer = "--recording: the mean of all; --routing: "});
  const Option topk =
      command
          .option(
              "--topk", o.topk,
              "Routing from a .safetensors: [tokens, top_k] or [ranks, tokens, top_k]; -1: a slot without an expert")
          .excludes(routing);
  command.option("--tensor", o.tensor, "Tensor of the --topk file").shows_default();
  command.option("--recording", o.recording, "The counts of a recorded run, on its own ranks")
      .excludes(routing)
      .excludes(topk);
  command.option("--ranks", o.ranks, "Expert-parallel ranks (default with --topk: the file's)")
      .range(1, 256)
      .shows_default();
  command.option("--tokens-per-rank", o.tokens_per_rank, "Tokens per rank").range(1, 1 << 24).shows_default();
  command.option("--payload", o.payload, "bf16, fp8 (DeepEP's FP8 dispatch) or mxfp8").shows_default();
  command.option("--no-recompute", o.no_recompute, "Four operations per layer instead of six");
  command.option("--json", o.json, "Print JSON");
  command.option("--write-placement", o.plan_out,
                 "File to write: experts placed by the loads of --recording (a recording or a log) on --ranks with "
                 "--slots, as SGLang's --init-expert-location reads them; prints what the plan does to the fullest "
                 "rank in the steps after those it was made from");
  command.option("--plan-until", o.plan_until, "Last step whose loads make the plan (default: half of the steps)")
      .range(std::int64_t{0}, INT64_MAX);
  command.option("--overwrite", o.overwrite, "Replace the file of --write-placement");
  command.option("--matrices", o.matrices, "With --json: the counts by rank (R x R), node (R x N) and expert (R x E)");
}

}  // namespace

void add_volumes_command(CLI::App& app) {
  Command command(app, "volumes", "Count the bytes of an expert-parallel all-to-all by link");
  const auto options = std::make_shared<VolumesOptions>();
  add_options(command, *options);
  command.runs([options, command] { print_volumes(command, *options); });
}

}  // namespace moescope
