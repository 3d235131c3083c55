#include <memory>
#include <stdexcept>
#include <string>

#include "app/cli/cli_reading.h"
#include "app/cli/command_line.h"
#include "core/cluster/published_runs.h"
#include "core/cluster/ranks/routing_patterns.h"

namespace moescope {
namespace {

struct PredictOptions : RoutingOptions {
  std::string model = "671B", hardware = "b200", recipe = "bf16", all_to_all = "standard";
  std::string payload = "bf16", recompute = "full";
  int gpus = 256, tp = 0, pp = 0, virtual_stages = 0, microbatches = 0;
  std::int64_t seq = 8192;
  double overlap = 0;
  bool json = false;
};

// The case to predict, the name of its routing, and its recorded load, which is empty for a routing by rule.
struct PredictRequest {
  StepConfig config;
  std::string routing;
  std::vector<std::uint32_t> load;
};

RoutingTraffic traffic_of(const PredictOptions& o, const ModelShape& shape, AllToAll all_to_all,
                          PredictRequest& request) {
  if (o.ranks > shape.n_experts)
    throw std::runtime_error(fmt::format("--ep {} is more than the {} experts", o.ranks, shape.n_experts));
  // Enough tokens that sampling changes max/mean by less than 1 %. Every rank has one or more for each expert.
  const std::int64_t tokens = std::int64_t{o.ranks} * std::max<std::int64_t>(shape.n_experts, 65536 / o.ranks);
  const ChosenExperts chosen = choose_experts(o, shape, tokens);
  request.routing = chosen.name;
  request.load = chosen.load;
  const Placement placement = placement_named(o, chosen.topk_TK, shape);
  return routing_traffic(count_volumes(chosen.topk_TK, to_int(shape.top_k), placement, o.ranks_per_node), tokens,
                         all_to_all);
}

PredictRequest request_of(const PredictOptions& o) {
  PredictRequest request;
  StepConfig& config = request.config;
  config.shape = model_shape(o.model);
  config.hardware = hardware_profile(o.hardware);
  config.mxfp8 = o.recipe == "mxfp8";
  config.all_to_all = all_to_all_name.get("all-to-all", o.all_to_all);
  config.payload = payload_name.get("payload", o.payload);
  config.recompute = recompute_name.get("recompute", o.recompute);
  config.traffic = traffic_of(o, config.shape, config.all_to_all, request);
  // The published parallelism of these shapes: TP 2 and PP 2 for 671B, neither for the others.
  const bool large = o.model == "671B";
  config.gpus = o.gpus;
  const auto given_or = [](int option, int published) { return option ? option : published; };
  config.tp = given_or(o.tp, large ? 2 : 1);
  config.pp = given_or(o.pp, large ? 2 : 1);
  config.virtual_stages = given_or(o.virtual_stages, config.pp > 1 ? 2 : 1);
  config.microbatches = given_or(o.microbatches, config.pp > 1 ? 64 : 1);
  config.seq = o.seq;
  config.overlap = o.overlap;
  return request;
}

const char* variant_name(const LiveCase& c) {
  if (c.node_limited && c.balanced) return "all three";
  if (c.node_limited) return "node-limited";
  if (c.balanced) return "balanced placement";
  return c.payload == Payload::mxfp8 ? "MXFP8 payload" : "as it is";
}

ValueTable live_cost_table(const std::vector<LiveCost>& costs) {
  ValueTable table({{.name = "EP", .key = "ep"},
                    {.name = "variant", .key = "variant"},
                    {.key = "node_limited"},
                    {.key = "balanced_placement"},
                    {.key = "payload"},
                    {.name = "tokens/s/GPU", .key = "tokens_per_second_per_gpu", .format = ".0f"},
                    {.name = "change", .unit = "share", .format = "+.0f"},
                    {.name = "band from", .key = "band.0", .format = ".0f"},
                    {.name = "to", .key = "band.1", .format = ".0f"},
                    {.name = "forced balance", .key = "forced_balance", .format = ".0f"},
                    {.key = "kind"},
                    {.key = "expert_rows_max_over_mean"},
                    {.key = "copies_per_token"}});
  for (const LiveCost& cost : costs) {
    const LiveCase& at = cost.live_case;
    table.add(at.ep, variant_name(at), at.node_limited, at.balanced, payload_name(at.payload), cost.tokens_per_second,
              -cost.lost(), cost.band.low, cost.band.high, cost.forced_tokens_per_second,
              provenance_name(Provenance::modelled), cost.traffic.expert_rows_max_over_mean,
              cost.traffic.copies_per_token);
  }
  return table;
}

ValueTable open_table(const std::vector<OpenNumber>& numbers) {
  ValueTable table({{.name = "unknown number", .key = "name"},
                    {.name = "unit", .key = "unit"},
                    {.name = "slow", .key = "slow", .format = ".2f"},
                    {.name = "fast", .key = "fast", .format = ".2f"},
                    {.name = "why", .key = "why"}});
  for (const OpenNumber& open : numbers) table.add(open.name, open.unit, open.slow, open.fast, open.reason);
  return table;
}

ValueTable part_table(const StepTime& time) {
  ValueTable table({{.name = "part", .key = "name"},
                    {.name = "ms/token", .key = "ms_per_token", .format = ".4f"},
                    {.name = "part of the time", .unit = "share", .format = ".1f"},
                    {.name = "kind", .key = "kind"},
                    {.name = "fitted number", .key = "fitted"},
                    {.name = "how", .key = "how"}});
  for (const StepPart& part : time.parts)
    table.add(part.name, part.ms, part.ms / time.ms_per_token, provenance_name(part.kind), part.fitted, part.how);
  return table;
}

void add_case(Report& report, const PredictRequest& request) {
  const StepConfig& config = request.config;
  report.value({.name = "model", .key = "model"}, config.shape.name);
  report.value({.name = "hardware", .key = "hardware"}, config.hardware.name);
  report.value({.name = "recipe of the experts", .key = "recipe"}, config.mxfp8 ? "mxfp8" : "bf16");
  report.value({.name = "all-to-all", .key = "all_to_all"}, all_to_all_name(config.all_to_all));
  report.value({.name = "payload", .key = "payload"}, payload_name(config.payload));
  report.value({.name = "routing", .key = "routing"}, request.routing);
  report.value({.name = "EP", .key = "ep"}, config.traffic.ranks);
  report.value({.name = "ranks per node", .key = "ranks_per_node"}, config.traffic.ranks_per_node);
  report.value({.name = "GPUs, TP, PP, tokens of a sequence, recompute"},
               fmt::format("{}, {}, {}, {}, {}", config.gpus, config.tp, config.pp, config.seq,
                           recompute_name(config.recompute)));
}

void add_traffic(Report& report, const RoutingTraffic& traffic, const StepTime& time) {
  report.value({.key = "traffic.kind"}, provenance_name(Provenance::counted));
  report.value({.key = "traffic.copies_per_token"}, traffic.copies_per_token);
  report.value({.key = "traffic.network_copies_per_token"}, traffic.network);
  report.value({.key = "traffic.received_max_over_mean"}, traffic.received_max_over_mean);
  report.value({.key = "traffic.expert_rows_max_over_mean"}, traffic.expert_rows_max_over_mean);
  report.value({.key = "traffic.network_bytes_per_token"}, time.network_bytes);
  report.value({.key = "traffic.nvlink_bytes_per_token"}, time.nvlink_bytes);
}

void add_parameters(Report& report, const StepParameters& p, const StepConfig& config, double duplication) {
  const auto add = [&](const ValueColumn& column, double value, Provenance kind) {
    ValueColumn named = column;
    named.name += fmt::format(", {}", provenance_name(kind));
    named.key = fmt::format("fitted.{}.value", column.key);
    report.value(named, value);
    report.value({.key = fmt::format("fitted.{}.kind", column.key)}, provenance_name(kind));
  };
  add({.name = "network of the standard all-to-all", .unit = "GB/s", .key = "standard_network_GBps", .format = ".1f"},
      p.standard_network_share * config.hardware.network.value, Provenance::fitted);
  report.value({.name = "of the line rate", .unit = "share", .format = ".0f"}, p.standard_network_share);
  add({.name = "speed-up of MXFP8 grouped GEMMs", .key = "mxfp8_grouped_speedup", .format = ".2f"}, p.mxfp8_speedup,
      Provenance::fitted);
  add({.name = "rest", .unit = "ms/token", .key = "rest_ms_671B_B200", .format = ".3f"}, p.rest_ms, Provenance::fitted);
  add({.name = "DeepEP overhead", .unit = "ms/token", .key = "deep_ep_overhead_ms", .format = ".2f"},
      p.deep_ep_overhead_ms, Provenance::assumed);
  report.value({.name = "times that a token is dispatched and computed, assumed"}, duplication);
}

void add_profile(Report& report, const HardwareProfile& hardware) {
  for (const NamedHardwareNumber& named : hardware_numbers()) {
    const HardwareNumber& number = hardware.*named.number;
    if (number.value <= 0) continue;
    const std::string key = fmt::format("profile.{}.", named.key);
    report.value({.key = key + "value"}, number.value);
    report.value({.key = key + "unit"}, number.unit);
    report.value({.key = key + "kind"}, provenance_name(number.kind));
    report.value({.key = key + "source"}, number.source);
  }
}

Report report_of(const PredictRequest& request, const StepParameters& parameters, const StepTime& time,
                 const std::vector<LiveCost>& costs) {
  const Band band = throughput_band(request.config, parameters.hypothesis);
  Report report;
  add_case(report, request);
  const std::string speed = "tokens_per_second_per_gpu.";
  report.value({.name = "tokens/s/GPU, modelled with fitted numbers", .key = speed + "value", .format = ".0f"},
               time.tokens_per_second);
  report.value({.key = speed + "kind"}, provenance_name(Provenance::modelled));
  report.value({.key = speed + "fitted"}, time.fitted());
  report.value({.name = "band from", .key = speed + "band.0", .format = ".0f"}, band.low);
  report.value({.name = "band to", .key = speed + "band.1", .format = ".0f"}, band.high);
  report.value({.name = "ms/token/GPU, modelled with fitted numbers", .key = "ms_per_token.value", .format = ".4f"},
               time.ms_per_token);
  report.value({.key = "ms_per_token.kind"}, provenance_name(Provenance::modelled));
  report.value({.key = "ms_per_token.fitted"}, time.fitted());
  report.sentence("");
  report.table("parts", part_table(time));
  add_traffic(report, request.config.traffic, time);
  report.sentence("");
  add_parameters(report, parameters, request.config, time.duplication);
  add_profile(report, request.config.hardware);
  report.sentence("");
  report.table("open", open_table(open_numbers(request.config)));
  if (costs.empty()) return report;
  report.sentence("");
  report.sentence(fmt::format("cost of this imbalance, modelled; change against forced balance, {}",
                              all_to_all_name(request.config.all_to_all)));
  report.table("cost_of_this_load", live_cost_table(costs));
  return report;
}

void predict_step(const Command& command, const PredictOptions& options) {
  if (!options.names_file())
    command.refuse({"--run", "--step", "--layer", "--node-limited"},
                   "needs a recording as --routing (grouped is always node-limited)");
  const PredictRequest request = request_of(options);
  const StepParameters& parameters = fit_to_published(Hypothesis::h2);
  const StepTime time = step_time(request.config, parameters);
  std::vector<LiveCost> costs;
  if (options.names_file())
    costs = live_costs(request.config, parameters.hypothesis,
                       stretch_load(request.load, to_int(request.config.shape.n_experts), options.seed),
                       live_cases(request.config), options.seed);
  print_report(report_of(request, parameters, time, costs), options.json);
}

void add_options(Command& command, PredictOptions& o) {
  constexpr int kMax = 1 << 20;
  command.option("--model", o.model, "671B, 236B, 16B or debugmodel").shows_default();
  command.option("--hardware", o.hardware, "b200, h200, h100 or a .toml").shows_default();
  command.option("--recipe", o.recipe, "Format of the grouped GEMMs of the routed experts")
      .one_of({"bf16", "mxfp8"})
      .shows_default();
  command.option("--all-to-all", o.all_to_all, "standard or deepep").shows_default();
  command.option("--payload", o.payload, "Format of the rows in the all-to-all: bf16, fp8 or mxfp8").shows_default();
  add_routing_options(command, o, {.routing = ", and the cost for each EP degree"});
  command.option("--node-limited", o.node_limited, "With a recording: tokens stay within the model's limited groups");
  command.option("--ep", o.ranks, "Expert-parallel ranks").range(1, 256).shows_default();
  command.option("--gpus", o.gpus, "Number of GPUs").range(1, kMax).shows_default();
  command.option("--tp", o.tp, "Tensor-parallel ranks (671B: 2, others: 1)").range(1, kMax);
  command.option("--pp", o.pp, "Pipeline stages (671B: 2, others: 1)").range(1, kMax);
  command.option("--virtual-stages", o.virtual_stages, "Pipeline stages per rank").range(1, kMax);
  command.option("--microbatches", o.microbatches, "Microbatches of a step").range(1, kMax);
  command.option("--seq", o.seq, "Tokens of a sequence").range(1, 1 << 24).shows_default();
  command.option("--recompute", o.recompute, "none, selective or full").shows_default();
  command.option("--overlap", o.overlap, "Share of the all-to-all hidden behind compute").range(0.0, 1.0);
  command.option("--json", o.json, "Print JSON");
}

}  // namespace

void add_predict_command(CLI::App& app) {
  Command command(app, "predict", "Model the time of a training step");
  const auto options = std::make_shared<PredictOptions>();
  add_options(command, *options);
  command.runs([options, command] { predict_step(command, *options); });
}

}  // namespace moescope
