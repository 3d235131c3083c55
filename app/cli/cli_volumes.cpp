#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/cli_json.h"
#include "app/cli/cli_routing.h"
#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "core/cluster/model_shape.h"
#include "core/frame/volume_stats.h"
#include "core/io/text_escape.h"
#include "core/parallel/volumes.h"
#include "core/tensors/safetensors.h"

namespace moescope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxSlots = std::int64_t{1} << 26;  // limit on token slots: 256 MiB of chosen experts

struct VolumesOptions : RoutingOptions {
  std::string model = "671B", topk, tensor = "topk_idx", recording, payload = "bf16";
  int dim = 0, experts = 0, top_k = 0, moe_layers = 0, groups = 0, limited_groups = 0;
  std::int64_t tokens_per_rank = 4096;
  bool no_recompute = false, json = false, matrices = false;
};

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
  const int n_experts = static_cast<int>(shape.n_experts);
  if (options.ranks > n_experts && options.placement != "balanced")
    throw std::runtime_error("--ranks " + std::to_string(options.ranks) + " is more than the " +
                             std::to_string(n_experts) + " experts; allowed with --placement balanced --slots 1");
  return placement_named(options, topk_TK, shape);
}

// Returns a number of the file's metadata, `otherwise` if there is none. Throws std::runtime_error unless it is 1 to
// `most`.
std::int64_t metadata_number(const SafetensorsFile& file, const char* key, std::int64_t otherwise, std::int64_t max) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return otherwise;
  const std::int64_t value = std::atoll(found->second.c_str());
  if (value < 1 || value > max)
    throw std::runtime_error(file.path() + ": metadata '" + key + "' is '" + found->second + "'; allowed: 1 to " +
                             std::to_string(max));
  return value;
}

// Reads an array [R, T, K] or [T, K]. Takes the number of experts, ranks and ranks per node from the file if the
// command line does not give them.
std::vector<std::int32_t> read_topk(const Command& command, VolumesOptions& options, ModelShape& shape) {
  const SafetensorsFile file(options.topk);
  const TensorView& tensor = file.at(options.tensor);
  const std::string place = options.topk + ": tensor '" + options.tensor + "': ";
  if (tensor.shape.size() < 2 || tensor.shape.back() == 0 || is_floating(tensor.dtype))
    throw std::runtime_error(place + "whole numbers of shape [tokens, top_k] or [ranks, tokens, top_k] are needed");
  if (tensor.shape.back() > 1024) throw std::runtime_error(place + "top_k is above 1024");
  shape.top_k = static_cast<std::int64_t>(tensor.shape.back());
  if (options.top_k > 0 && options.top_k != shape.top_k)
    throw std::runtime_error(place + "has top_k " + std::to_string(shape.top_k) + ", --top-k says " +
                             std::to_string(options.top_k));
  if (options.experts <= 0) shape.n_experts = metadata_number(file, "experts", shape.n_experts, 4096);
  if (!command.given("--ranks")) {
    const bool by_rank = tensor.shape.size() == 3 && tensor.shape[0] >= 1 && tensor.shape[0] <= 256;
    options.ranks = static_cast<int>(metadata_number(file, "ranks", by_rank ? tensor.shape[0] : options.ranks, 256));
  }
  if (!command.given("--ranks-per-node"))
    options.ranks_per_node = static_cast<int>(metadata_number(file, "ranks_per_node", options.ranks_per_node, 256));
  std::vector<std::int32_t> topk_TK;
  for (const std::int64_t expert : tensor.integers()) {
    if (expert < -1 || expert >= shape.n_experts)
      throw std::runtime_error(place + "holds expert " + std::to_string(expert) + ", but there are " +
                               std::to_string(shape.n_experts) + " (--experts); -1 is a slot without an expert");
    topk_TK.push_back(static_cast<std::int32_t>(expert));
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
  counted.top_k = static_cast<int>(shape.top_k);
  counted.n_experts = static_cast<int>(shape.n_experts);
  counted.dim = static_cast<int>(shape.dim);
  counted.moe_layers = static_cast<int>(shape.n_moe_layers());
  counted.tokens = static_cast<std::int64_t>(topk_TK.size()) / counted.top_k;
  counted.volume = count_volumes(topk_TK, counted.top_k, placement_of(options, topk_TK, shape), options.ranks_per_node);
  counted.nowhere = std::ranges::count(topk_TK, -1);
  counted.copies_RE = count_by_expert(topk_TK, counted.top_k, counted.n_experts, options.ranks);
  return counted;
}

void add(std::vector<std::uint32_t>& sum, const std::vector<std::uint32_t>& more) {
  sum.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

// Uses the ranks and the placement of the recording, which holds counts but not the experts of each token.
Counted count_recording(const VolumesOptions& options) {
  const auto [info, frame] = recorded_step(options.recording, options.run, options.step);
  Counted counted;
  int layers = 0;
  for (const RouterFrame& router : frame->routers) {
    if (router.volume.ranks == 0 || (options.layer >= 0 && router.layer != options.layer)) continue;
    counted.volume.ranks = router.volume.ranks;
    counted.volume.ranks_per_node = router.volume.ranks_per_node;
    add(counted.volume.copies_RR, router.volume.copies_RR);
    add(counted.volume.distinct_RR, router.volume.distinct_RR);
    add(counted.volume.nodes_RN, router.volume.nodes_RN);
    ++layers;
  }
  if (layers == 0)
    throw std::runtime_error(options.recording + (options.layer >= 0
                                                      ? ": layer " + std::to_string(options.layer) + " has no volumes"
                                                      : std::string(": was recorded without volumes")));
  counted.routing = options.recording + ", run " + std::to_string(options.run) + ", step " +
                    std::to_string(frame->step) +
                    (layers == 1 ? "" : ", mean of " + std::to_string(layers) + " layers");
  counted.tokens = info.tokens_per_step * layers;
  counted.dim = options.dim > 0 ? options.dim : info.dim;
  counted.top_k = info.top_k;
  counted.n_experts = info.n_experts;
  counted.moe_layers = static_cast<int>(info.moe_layers.size());
  return counted;
}

double sum_of(const std::vector<std::uint32_t>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double max_over_mean(const std::vector<std::uint64_t>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return sum > 0 ? static_cast<double>(std::ranges::max(values)) * static_cast<double>(values.size()) / sum : 1;
}

struct WayCounts {
  AllToAll way;
  double sent, local, nvlink, network;     // copies per token
  double nvlink_fullest, network_fullest;  // copies of the busiest rank, divided by the mean number of tokens of a rank
  double received_max_over_mean;
};

WayCounts way_counts(const Counted& counted, AllToAll way) {
  const auto links = copies_by_link(counted.volume, way);
  const LinkCopies sum = total(links);
  const double tokens = static_cast<double>(counted.tokens);
  std::uint64_t nvlink = 0, network = 0;
  for (const LinkCopies& link : links) {
    nvlink = std::max({nvlink, link.nvlink_in, link.nvlink_out});
    network = std::max({network, link.network_in, link.network_out});
  }
  const auto received = received_tokens(counted.volume, way);
  const double per_rank = counted.volume.ranks / tokens;
  return {way,
          std::accumulate(received.begin(), received.end(), 0.0) / tokens,
          static_cast<double>(sum.local) / tokens,
          static_cast<double>(sum.nvlink_out) / tokens,
          static_cast<double>(sum.network_out) / tokens,
          static_cast<double>(nvlink) * per_rank,
          static_cast<double>(network) * per_rank,
          max_over_mean(received)};
}

Json to_json(const Counted& counted, const std::vector<WayCounts>& ways, const std::vector<AllToAllOp>& ops,
             bool matrices) {
  Json root;
  root["kind"] = "counted";
  root["routing"] = counted.routing;
  root["ranks"] = counted.volume.ranks;
  root["ranks_per_node"] = counted.volume.ranks_per_node;
  root["tokens"] = counted.tokens;
  root["dim"] = counted.dim;
  root["n_experts"] = counted.n_experts;
  root["top_k"] = counted.top_k;
  root["moe_layers"] = counted.moe_layers;
  root["slots_sent_nowhere"] = counted.nowhere;
  root["ranks_per_token"] = sum_of(counted.volume.distinct_RR) / static_cast<double>(counted.tokens);
  root["nodes_per_token"] = sum_of(counted.volume.nodes_RN) / static_cast<double>(counted.tokens);
  for (const WayCounts& way : ways) {
    Json& out = root[all_to_all_name(way.way)];
    out["copies_per_token"] = {
        {"sent", way.sent}, {"local", way.local}, {"nvlink", way.nvlink}, {"network", way.network}};
    out["busiest_rank_copies_per_token"] = {{"nvlink", way.nvlink_fullest}, {"network", way.network_fullest}};
    out["received_max_over_mean"] = way.received_max_over_mean;
    for (const AllToAllOp& op : ops) {
      const double bytes = static_cast<double>(bytes_per_token(op.payload, counted.dim));
      out["operations"].push_back({{"name", op.name},
                                   {"payload", payload_name(op.payload)},
                                   {"bytes_per_copy", bytes},
                                   {"bytes_per_token", way.sent * bytes},
                                   {"nvlink_bytes_per_token", way.nvlink * bytes},
                                   {"network_bytes_per_token", way.network * bytes}});
    }
  }
  root["saved_by_deepep"] = number_or_null(saved_by_deepep(counted.volume));
  if (matrices) {
    root["copies_RR"] = counted.volume.copies_RR;
    root["distinct_RR"] = counted.volume.distinct_RR;
    root["nodes_RN"] = counted.volume.nodes_RN;
    if (!counted.copies_RE.empty()) root["copies_RE"] = counted.copies_RE;
  }
  return root;
}

void print_table(const Counted& counted, const std::vector<WayCounts>& ways, const std::vector<AllToAllOp>& ops) {
  const VolumeFrame& volume = counted.volume;
  const double tokens = static_cast<double>(counted.tokens);
  std::printf("%s; %d experts, top_k %d, dim %d; %d rank%s on nodes of %d; all figures counted\n",
              printable(counted.routing).c_str(), counted.n_experts, counted.top_k, counted.dim, volume.ranks,
              volume.ranks == 1 ? "" : "s", volume.ranks_per_node);
  if (counted.nowhere > 0)
    std::printf("%lld of %lld slots hold no expert (-1) and are sent nowhere\n",
                static_cast<long long>(counted.nowhere), static_cast<long long>(counted.tokens * counted.top_k));
  std::printf("a token reaches %.3f ranks on %.3f nodes\n\n", sum_of(volume.distinct_RR) / tokens,
              sum_of(volume.nodes_RN) / tokens);
  std::printf("%-10s %-22s %-6s %11s | %12s %12s %12s | %12s %12s\n", "", "bytes per token", "as", "bytes a copy",
              "sent", "NVLink", "network", "busiest NVL", "busiest net");
  for (const WayCounts& way : ways) {
    double nvlink = 0, network = 0;
    for (const AllToAllOp& op : ops) {
      const double bytes = static_cast<double>(bytes_per_token(op.payload, counted.dim));
      std::printf("%-10s %-22s %-6s %12.0f | %12.0f %12.0f %12.0f | %12.0f %12.0f\n", all_to_all_name(way.way), op.name,
                  payload_name(op.payload), bytes, way.sent * bytes, way.nvlink * bytes, way.network * bytes,
                  way.nvlink_fullest * bytes, way.network_fullest * bytes);
      nvlink += way.nvlink * bytes * counted.moe_layers;
      network += way.network * bytes * counted.moe_layers;
    }
    std::printf(
        "%-10s all operations of %d layers: %.4g MB NVLink, %.4g MB network a token; received max/mean %.3f\n\n",
        all_to_all_name(way.way), counted.moe_layers, nvlink / 1e6, network / 1e6, way.received_max_over_mean);
  }
  if (const double saved = saved_by_deepep(volume); !std::isnan(saved))
    std::printf("saved by DeepEP: %.3g %% of the network bytes of the standard dispatch\n", 100 * saved);
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
}

void print_volumes(const Command& command, VolumesOptions options) {
  check_options(command, options);
  const Payload payload = payload_named(options.payload);
  const Counted counted = options.recording.empty() ? count_routing(command, options) : count_recording(options);
  const std::vector<AllToAllOp> ops = all_to_all_ops(payload, !options.no_recompute);
  const std::vector<WayCounts> ways{way_counts(counted, AllToAll::standard), way_counts(counted, AllToAll::deep_ep)};
  if (options.json)
    std::printf(
        "%s\n",
        to_json(counted, ways, ops, options.matrices).dump(2, ' ', true, Json::error_handler_t::replace).c_str());
  else
    print_table(counted, ways, ops);
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
  const Option routing =
      command
          .option("--routing", o.routing,
                  "forced, uniform, grouped[:LIMITED[/GROUPS]], zipf:S, a .safetensors as --topk takes, "
                  "or a recording: the load of its router, stretched to the model's experts")
          .shows_default();
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
  command.option("--run", o.run, "Run of the recording").shows_default();
  command.option("--step", o.step, "Step of the recording (default: the last)").range(std::int64_t{0}, INT64_MAX);
  command
      .option("--layer", o.layer,
              "Layer of the recording (default: --recording: the mean of all; --routing: the most uneven)")
      .range(0, INT_MAX);
  command.option("--ranks", o.ranks, "Expert-parallel ranks (default with --topk: the file's)")
      .range(1, 256)
      .shows_default();
  command.option("--ranks-per-node", o.ranks_per_node, "Ranks connected by NVLink").range(1, 256).shows_default();
  command
      .option("--placement", o.placement,
              "contiguous, random or balanced (replicate and pack, as EPLB does for inference)")
      .shows_default();
  command.option("--slots", o.slots, "Expert slots a rank for balanced; more than experts / ranks leaves replicas")
      .range(1, 1024);
  command.option("--tokens-per-rank", o.tokens_per_rank, "Tokens a rank").range(1, 1 << 24).shows_default();
  command.option("--payload", o.payload, "bf16, fp8 (DeepEP's FP8 dispatch) or mxfp8").shows_default();
  command.option("--seed", o.seed, "Seed of random routings and placements").shows_default();
  command.option("--no-recompute", o.no_recompute, "Four operations per layer instead of six");
  command.option("--json", o.json, "Print JSON");
  command.option("--matrices", o.matrices, "With --json: the counts by rank (R x R), node (R x N) and expert (R x E)");
}

}  // namespace

void add_volumes_command(CLI::App& app) {
  Command command(app, "volumes", "Count the bytes of an expert-parallel all-to-all by link");
  const auto options = std::make_shared<VolumesOptions>();
  add_options(command, *options);
  command.footer(
      "Examples:\n"
      "  moescope-cli volumes --model 671B --ranks 32 --routing grouped:4\n"
      "  moescope-cli volumes --model 16B --routing zipf:0.8 --ranks 16 --placement balanced --slots 5\n"
      "  moescope-cli volumes --topk routing.safetensors --ranks 64 --payload mxfp8 --json\n"
      "  moescope-cli volumes --recording run.moescope --step 400\n"
      "  moescope-cli volumes --routing run.moescope --model 671B --ranks 256");
  command.runs([options, command] { print_volumes(command, *options); });
}

}  // namespace moescope
