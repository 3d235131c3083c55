#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "app/cli/cli_json.h"
#include "app/cli/cli_routing.h"
#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "core/cluster/layer_model.h"
#include "core/cluster/live_cost.h"
#include "core/cluster/published_runs.h"
#include "core/io/text_escape.h"
#include "core/io/words.h"

namespace moescope {
namespace {

using Json = nlohmann::ordered_json;

struct PredictOptions : RoutingOptions {
  std::string calibration, model = "671B", hardware = "b200", recipe = "bf16", all_to_all = "standard";
  std::string payload = "bf16", recompute = "full", hypothesis = "h2";
  int gpus = 256, tp = 0, pp = 0, virtual_stages = 0, microbatches = 0;
  std::int64_t seq = 8192;
  double overlap = 0, memory_GBps = 0;
  bool json = false;
};

std::string cell(double value, const char* format = "%.2f") {
  return std::isnan(value) ? "-" : formatted(format, value);
}

// ---- measured layers ----

double error_of(double predicted, double measured) {
  return predicted / measured - 1;
}

std::string percent_text(double error) {
  return std::isnan(error) ? "-" : cell(100 * error, "%+.1f %%");
}

std::string routing_text(const ClusterRouting& routing) {
  if (!routing.label.empty()) return routing.label;
  return std::isnan(routing.skew) ? "" : "skew " + cell(routing.skew, "%g");
}

Json figure_json(double predicted, double measured) {
  return {{"predicted", number_or_null(predicted)},
          {"measured", number_or_null(measured)},
          {"error", number_or_null(error_of(predicted, measured))}};
}

Json summary_json(const ErrorSummary& summary) {
  return {
      {"count", summary.count}, {"median", number_or_null(summary.median)}, {"worst", number_or_null(summary.worst)}};
}

void print_layers_json(const LayerModel& model, const CalibrationReport& report, const std::string& memory_source) {
  Json root;
  root["calibration"] = model.calibration().path;
  root["gpu"] = model.calibration().gpu;
  root["world"] = model.calibration().world;
  root["fitted"] = {{"sustained_gemm_slowdown", kSustainedGemmSlowdown}};
  root["memory_copy_GBps"] = {{"value", model.memory_copy_GBps()}, {"source", memory_source}};
  root["kinds"] = {{"predicted", provenance_name(Provenance::modelled)},
                   {"measured", provenance_name(Provenance::measured_elsewhere)}};
  for (const LayerComparison& row : report.rows) {
    root["layers"].push_back({{"model", row.shape.model},
                              {"routing", routing_text(row.routing)},
                              {"all_to_all", all_to_all_name(row.all_to_all)},
                              {"tokens_per_rank", row.routing.tokens_per_rank},
                              {"comm_ms", figure_json(row.predicted.comm_ms, row.measured_comm_ms)},
                              {"experts_ms", figure_json(row.predicted.experts_ms, row.measured_experts_ms)},
                              {"rest_ms", number_or_null(row.predicted.rest_ms)},
                              {"layer_ms", figure_json(row.predicted.layer_ms(), row.measured_layer_ms)}});
  }
  root["errors"] = {{"layer", summary_json(report.layer)},
                    {"comm", summary_json(report.comm)},
                    {"experts", summary_json(report.experts)}};
  root["missing_or_assumed"] = report.notes;
  std::printf("%s\n", root.dump(2, ' ', true, Json::error_handler_t::replace).c_str());
}

void print_layers(const LayerModel& model, const CalibrationReport& report, const std::string& memory_source) {
  std::printf(
      "%s: %s x %d. Times in ms, forward and backward; predicted: modelled; measured: measured elsewhere, from the "
      "file.\n",
      printable(model.calibration().path).c_str(),
      model.calibration().gpu.empty() ? "GPU not named" : printable(model.calibration().gpu).c_str(),
      model.calibration().world);
  std::printf(
      "the only fitted number: sustained_gemm_slowdown = %.2f (chosen by the errors of experts_ms and of whole layers "
      "of the two H200 files)\n",
      kSustainedGemmSlowdown);
  std::printf("memory copy %.0f GB/s (%s)\n\n", model.memory_copy_GBps(), printable(memory_source).c_str());
  std::printf("%-12s %-12s %-9s %6s | %8s %8s %9s | %8s %8s %9s | %6s | %8s %8s %9s\n", "model", "routing", "by",
              "tokens", "comm", "measured", "error", "experts", "measured", "error", "rest", "layer", "measured",
              "error");
  for (const LayerComparison& row : report.rows) {
    const LayerTime& time = row.predicted;
    std::printf("%-12s %-12s %-9s %6.0f | %8s %8s %9s | %8s %8s %9s | %6s | %8s %8s %9s\n",
                printable(row.shape.model).c_str(), printable(routing_text(row.routing)).c_str(),
                all_to_all_name(row.all_to_all), row.routing.tokens_per_rank, cell(time.comm_ms).c_str(),
                cell(row.measured_comm_ms).c_str(), percent_text(error_of(time.comm_ms, row.measured_comm_ms)).c_str(),
                cell(time.experts_ms).c_str(), cell(row.measured_experts_ms).c_str(),
                percent_text(error_of(time.experts_ms, row.measured_experts_ms)).c_str(), cell(time.rest_ms).c_str(),
                cell(time.layer_ms()).c_str(), cell(row.measured_layer_ms).c_str(),
                percent_text(error_of(time.layer_ms(), row.measured_layer_ms)).c_str());
  }
  std::printf("\n%-28s %8s %8s %8s\n", "absolute error", "rows", "median", "worst");
  for (const auto& [name, errors] :
       {std::pair{"whole layer", report.layer}, {"communication", report.comm}, {"experts", report.experts}})
    std::printf("%-28s %8d %8s %8s\n", name, errors.count, cell(100 * errors.median, "%.1f %%").c_str(),
                cell(100 * errors.worst, "%.1f %%").c_str());
  if (!report.notes.empty()) std::printf("\nmissing in the file, or assumed:\n");
  for (const std::string& note : report.notes) std::printf("  %s\n", printable(note).c_str());
}

// Throws std::runtime_error if nothing can be predicted for the layers of a file.
void check_predicted(const std::string& path, const CalibrationReport& report) {
  for (const LayerComparison& row : report.rows)
    if (!std::isnan(row.predicted.comm_ms) || !std::isnan(row.predicted.experts_ms)) return;
  std::string said = path + (report.rows.empty() ? ": has no layer to predict"
                                                 : ": has no numbers from which its layers can be predicted");
  for (const std::string& note : report.notes) said += "\n  " + note;
  throw std::runtime_error(said);
}

void predict_layers(const Command& command, const PredictOptions& options) {
  command.refuse({"--recipe",       "--all-to-all", "--payload",   "--routing",
                  "--run",          "--step",       "--layer",     "--node-limited",
                  "--placement",    "--slots",      "--ep",        "--ranks-per-node",
                  "--gpus",         "--tp",         "--pp",        "--virtual-stages",
                  "--microbatches", "--seq",        "--recompute", "--overlap",
                  "--hypothesis",   "--seed"},
                 "cannot be used with --calibration, whose layers are those of its file");
  Calibration calibration = read_calibration(options.calibration);
  std::string source;
  double memory = options.memory_GBps;
  if (!std::isnan(calibration.memory_copy_GBps)) {
    source = std::string(provenance_name(Provenance::measured_elsewhere)) + ", in the file";
  } else if (memory > 0) {
    source = "given";
  } else if (const HardwareProfile* profile = profile_of_gpu(calibration.gpu)) {
    memory = profile->memory_copy.value;
    source = std::string(provenance_name(profile->memory_copy.kind)) + ": " + profile->memory_copy.source;
  } else {
    const HardwareProfile fallback = hardware_profile("h200");
    memory = fallback.memory_copy.value;
    source = "assumed, value of an H200";
    calibration.missing.push_back("memory_copy_GBps: not in the file, and " +
                                  (calibration.gpu.empty()
                                       ? std::string("the file names no gpu")
                                       : "there is no hardware profile for '" + calibration.gpu + "'") +
                                  "; the value of an H200 is assumed, --memory-bandwidth sets another");
  }
  const LayerModel model(std::move(calibration), memory);
  const CalibrationReport report = compare_with_measured(model);
  check_predicted(options.calibration, report);
  if (options.json)
    print_layers_json(model, report, source);
  else
    print_layers(model, report, source);
}

// ---- a training step ----

// The case to predict, the name of its routing, and its recorded load, which is empty for a routing by rule.
struct Asked {
  StepConfig config;
  std::string routing;
  std::vector<std::uint32_t> load;
};

RoutingTraffic traffic_of(const PredictOptions& o, const ModelShape& shape, AllToAll way, Asked& asked) {
  if (o.ranks > shape.n_experts)
    throw std::runtime_error("--ep " + std::to_string(o.ranks) + " is more than the " +
                             std::to_string(shape.n_experts) + " experts");
  // Enough tokens that sampling changes max/mean by less than 1 %. Every rank has at least as many as there are
  // experts.
  const std::int64_t tokens = std::int64_t{o.ranks} * std::max<std::int64_t>(shape.n_experts, 65536 / o.ranks);
  const ChosenExperts chosen = choose_experts(o, shape, tokens);
  asked.routing = chosen.name;
  asked.load = chosen.load;
  const Placement placement = placement_named(o, chosen.topk_TK, shape);
  return routing_traffic(count_volumes(chosen.topk_TK, static_cast<int>(shape.top_k), placement, o.ranks_per_node),
                         tokens, way);
}

Asked asked_by(const PredictOptions& o) {
  Asked asked;
  StepConfig& config = asked.config;
  config.shape = model_shape(o.model);
  config.hardware = hardware_profile(o.hardware);
  if (o.recipe != "bf16" && o.recipe != "mxfp8")
    throw std::runtime_error("--recipe is '" + o.recipe + "'; allowed: bf16, mxfp8");
  config.mxfp8 = o.recipe == "mxfp8";
  config.all_to_all = all_to_all_named(o.all_to_all);
  config.payload = payload_named(o.payload);
  config.recompute = recompute_named(o.recompute);
  config.traffic = traffic_of(o, config.shape, config.all_to_all, asked);
  // The published parallelism of these shapes: TP 2 and PP 2 for 671B, neither for the others.
  const bool large = o.model == "671B";
  config.gpus = o.gpus;
  config.tp = o.tp ? o.tp : large ? 2 : 1;
  config.pp = o.pp ? o.pp : large ? 2 : 1;
  config.virtual_stages = o.virtual_stages ? o.virtual_stages : config.pp > 1 ? 2 : 1;
  config.microbatches = o.microbatches ? o.microbatches : config.pp > 1 ? 64 : 1;
  config.seq = o.seq;
  config.overlap = o.overlap;
  return asked;
}

// ---- the cost of the load of a recorded router ----

const char* variant_name(const LiveCase& c) {
  if (c.node_limited && c.balanced) return "all three";
  if (c.node_limited) return "node-limited";
  if (c.balanced) return "balanced placement";
  return c.payload == Payload::mxfp8 ? "MXFP8 payload" : "as it is";
}

Json live_costs_json(const std::vector<LiveCost>& costs) {
  Json rows = Json::array();
  for (const LiveCost& cost : costs)
    rows.push_back({{"ep", cost.live_case.ep},
                    {"variant", variant_name(cost.live_case)},
                    {"node_limited", cost.live_case.node_limited},
                    {"balanced_placement", cost.live_case.balanced},
                    {"payload", payload_name(cost.live_case.payload)},
                    {"tokens_per_second_per_gpu", cost.tokens_per_second},
                    {"band", {cost.band.low, cost.band.high}},
                    {"forced_balance", cost.forced_tokens_per_second},
                    {"kind", "modelled"},
                    {"expert_rows_max_over_mean", cost.traffic.expert_rows_max_over_mean},
                    {"copies_per_token", cost.traffic.copies_per_token}});
  return rows;
}

void print_live_costs(const std::vector<LiveCost>& costs, const Asked& asked) {
  std::printf("\ncost of this imbalance: tokens/s/GPU (modelled) and the change against forced balance, %s\n",
              all_to_all_name(asked.config.all_to_all));
  std::printf("%4s %8s", "EP", "forced");
  for (std::size_t i = 0; i < costs.size() && costs[i].live_case.ep == costs[0].live_case.ep; ++i)
    std::printf(" %19s", variant_name(costs[i].live_case));
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const LiveCost& cost = costs[i];
    if (i == 0 || cost.live_case.ep != costs[i - 1].live_case.ep)
      std::printf("\n%4d %8.0f", cost.live_case.ep, cost.forced_tokens_per_second);
    std::printf(" %19s", formatted("%.0f (%+.0f %%)", cost.tokens_per_second, -100 * cost.lost()).c_str());
  }
  std::printf("\n");
}

Json published_json(Hypothesis hypothesis) {
  Json bars = Json::array();
  for (const BarComparison& bar : compare_with_published(hypothesis))
    bars.push_back({{"name", bar.name},
                    {"published", number_or_null(bar.published)},
                    {"modelled", bar.modelled},
                    {"band", {bar.band.low, bar.band.high}},
                    {"standing", bar.standing},
                    {"error", number_or_null(bar.error())},
                    {"in_band", std::isnan(bar.published) ? Json(nullptr) : Json(bar.in_band())},
                    {"verdict", bar.verdict()}});
  return bars;
}

Json open_json(const StepConfig& config) {
  Json rows = Json::array();
  for (const OpenNumber& open : open_numbers(config))
    rows.push_back(
        {{"name", open.name}, {"unit", open.unit}, {"slow", open.slow}, {"fast", open.fast}, {"why", open.reason}});
  return rows;
}

Json pair_json(Hypothesis hypothesis) {
  const PairCheck check = check_with_pair(hypothesis);
  return {{"gain_published", check.published_gain},
          {"gain_modelled", check.modelled_gain},
          {"standard_network_GBps_implied", check.implied_network_GBps},
          {"standard_network_GBps_fitted", check.fitted_network_GBps},
          {"verdict", pair_verdict()}};
}

Json fitted_json(const StepParameters& p, const StepConfig& config) {
  return {{"standard_network_GBps",
           {{"value", p.standard_network_share * config.hardware.network.value}, {"kind", "fitted"}}},
          {"mxfp8_grouped_speedup", {{"value", p.mxfp8_speedup}, {"kind", "fitted"}}},
          {"rest_ms_671B_B200", {{"value", p.rest_ms}, {"kind", "fitted"}}},
          {"deep_ep_overhead_ms", {{"value", p.deep_ep_overhead_ms}, {"kind", "assumed"}}}};
}

void print_step_json(const Asked& asked, const StepParameters& parameters, const StepTime& time, const Band& band,
                     const std::vector<LiveCost>& costs) {
  const StepConfig& config = asked.config;
  Json root;
  root["model"] = config.shape.name;
  root["hardware"] = config.hardware.name;
  root["recipe"] = config.mxfp8 ? "mxfp8" : "bf16";
  root["all_to_all"] = all_to_all_name(config.all_to_all);
  root["payload"] = payload_name(config.payload);
  root["routing"] = asked.routing;
  root["ep"] = config.traffic.ranks;
  root["ranks_per_node"] = config.traffic.ranks_per_node;
  root["hypothesis"] = hypothesis_name(parameters.hypothesis);
  root["tokens_per_second_per_gpu"] = {{"value", time.tokens_per_second},
                                       {"kind", "modelled"},
                                       {"fitted", time.fitted()},
                                       {"band", {band.low, band.high}}};
  root["ms_per_token"] = {{"value", time.ms_per_token}, {"kind", "modelled"}, {"fitted", time.fitted()}};
  for (const StepPart& part : time.parts)
    root["parts"].push_back({{"name", part.name},
                             {"ms_per_token", part.ms},
                             {"kind", provenance_name(part.kind)},
                             {"fitted", part.fitted},
                             {"how", part.how}});
  root["traffic"] = {{"kind", "counted"},
                     {"copies_per_token", config.traffic.copies_per_token},
                     {"network_copies_per_token", config.traffic.network},
                     {"received_max_over_mean", config.traffic.received_max_over_mean},
                     {"expert_rows_max_over_mean", config.traffic.expert_rows_max_over_mean},
                     {"network_bytes_per_token", time.network_bytes},
                     {"nvlink_bytes_per_token", time.nvlink_bytes}};
  root["fitted"] = fitted_json(parameters, config);
  for (const NamedHardwareNumber& named : hardware_numbers()) {
    const HardwareNumber& value = config.hardware.*named.number;
    if (value.value > 0)
      root["profile"][named.key] = {{"value", value.value},
                                    {"unit", value.unit},
                                    {"kind", provenance_name(value.kind)},
                                    {"source", value.source}};
  }
  root["open"] = open_json(config);
  root["published"] = published_json(parameters.hypothesis);
  root["pair"] = pair_json(parameters.hypothesis);
  if (!costs.empty()) root["cost_of_this_load"] = live_costs_json(costs);
  std::printf("%s\n", root.dump(2, ' ', true, Json::error_handler_t::replace).c_str());
}

double gain(const BarComparison& from, const BarComparison& to, double BarComparison::*figure) {
  return 100 * (to.*figure / from.*figure - 1);
}

void print_published(Hypothesis hypothesis) {
  const std::vector<BarComparison> bars = compare_with_published(hypothesis);
  std::printf("\ntokens/s/GPU, 671B, forced routing    published  modelled       band  %-18s error\n", "standing");
  for (const BarComparison& bar : bars)
    std::printf("  %-34s %10s %9.0f  %4.0f..%4.0f  %-18s %s\n", bar.name.c_str(), cell(bar.published, "%.0f").c_str(),
                bar.modelled, bar.band.low, bar.band.high, bar.standing, bar.verdict().c_str());
  constexpr auto published = &BarComparison::published, modelled = &BarComparison::modelled;
  std::printf(
      "  tokens/s with DeepEP against standard: published %+.0f %%, modelled %+.0f %%; with MXFP8: %+.0f %%, %+.0f "
      "%%\n",
      gain(bars[0], bars[1], published), gain(bars[0], bars[1], modelled), gain(bars[0], bars[2], published),
      gain(bars[0], bars[2], modelled));
  std::printf("  %s\n  %s\n", pair_verdict().c_str(), pair_network(hypothesis).c_str());
  std::printf("  There are three B200 runs and three fitted parameters, so their agreement validates nothing.\n");
}

void print_step(const StepConfig& config, const StepParameters& p, const StepTime& time, const Band& band,
                const std::string& routing) {
  std::printf(
      "%s on %d x %s, %s experts, %s all-to-all (%s), routing %s, EP %d on nodes of %d, TP %d, PP %d, seq %lld, "
      "recompute %s\n",
      printable(config.shape.name).c_str(), config.gpus, printable(config.hardware.name).c_str(),
      config.mxfp8 ? "MXFP8" : "BF16", all_to_all_name(config.all_to_all), payload_name(config.payload),
      printable(routing).c_str(), config.traffic.ranks, config.traffic.ranks_per_node, config.tp, config.pp,
      static_cast<long long>(config.seq), recompute_name(config.recompute));
  std::printf("modelled, with fitted numbers: %.0f tokens/s/GPU (band %.0f..%.0f), %.4f ms/token/GPU\n\n",
              time.tokens_per_second, band.low, band.high, time.ms_per_token);
  std::printf("%-20s %9s %6s  %-9s %s\n", "part", "ms/token", "share", "kind", "how; * holds a fitted number");
  for (const StepPart& part : time.parts)
    std::printf("%-20s %9.4f %5.1f%%  %-8s%c %s\n", part.name, part.ms, 100 * part.ms / time.ms_per_token,
                provenance_name(part.kind), part.fitted.empty() ? ' ' : '*', printable(part.how).c_str());
  std::printf(
      "\nhypothesis %s, fitted to the three published runs: standard network %.1f GB/s (%.0f %% of line rate), MXFP8 "
      "grouped GEMMs x %.2f,\nrest %.3f ms/token; assumed: DeepEP overhead %.2f ms/token, a token dispatched and "
      "computed %g times\n",
      hypothesis_name(p.hypothesis), p.standard_network_share * config.hardware.network.value,
      100 * p.standard_network_share, p.mxfp8_speedup, p.rest_ms, p.deep_ep_overhead_ms, time.duplication);
  std::printf("band, from slow to fast:\n");
  for (const OpenNumber& open : open_numbers(config))
    std::printf("  %-18s %5.2f..%5.2f %-9s %s\n", open.name, open.slow, open.fast, open.unit, open.reason);
  print_published(p.hypothesis);
}

void predict_step(const Command& command, const PredictOptions& options) {
  if (!options.names_file())
    command.refuse({"--run", "--step", "--layer", "--node-limited"},
                   "needs a recording as --routing (grouped is always node-limited)");
  const Hypothesis hypothesis = hypothesis_named(options.hypothesis);
  const Asked asked = asked_by(options);
  const StepParameters parameters = fit_to_published(hypothesis);
  const StepTime time = step_time(asked.config, parameters);
  const Band band = throughput_band(asked.config, hypothesis);
  std::vector<LiveCost> costs;
  if (options.names_file())
    costs = live_costs(asked.config, hypothesis, asked.load, live_cases(asked.config), options.seed);
  if (options.json) return print_step_json(asked, parameters, time, band, costs);
  print_step(asked.config, parameters, time, band, asked.routing);
  if (!costs.empty()) print_live_costs(costs, asked);
}

constexpr const char* kRoutingHelp =
    "forced, uniform, grouped[:LIMITED[/GROUPS]], zipf:S, or a recording: the load of its router, stretched to the "
    "model's experts; then the cost for each EP degree, too";
constexpr const char* kHypothesisHelp =
    "How to read the published runs: h1 (tokens split over TP, DeepEP overhead) or h2 (tokens duplicated over TP)";

void add_options(Command& command, PredictOptions& o) {
  constexpr int kMax = 1 << 20;
  const Option calibration =
      command.option("--calibration", o.calibration,
                     "Predict the measured layers of this JSON file from the measured times of their parts");
  command
      .option("--memory-bandwidth", o.memory_GBps,
              "With --calibration: memory bandwidth of a copy in GB/s, read and written bytes")
      .range(1.0, 1e6)
      .needs(calibration);
  command.option("--model", o.model, "671B, 236B, 16B or debugmodel").shows_default().excludes(calibration);
  command.option("--hardware", o.hardware, "b200, h200, h100 or a .toml").shows_default().excludes(calibration);
  command.option("--recipe", o.recipe, "bf16 or mxfp8 (grouped GEMMs of the routed experts)").shows_default();
  command.option("--all-to-all", o.all_to_all, "standard or deepep").shows_default();
  command.option("--payload", o.payload, "Format of the rows in the all-to-all: bf16, fp8 or mxfp8").shows_default();
  command.option("--routing", o.routing, kRoutingHelp).shows_default();
  command.option("--run", o.run, "With a recording: its run").shows_default();
  command.option("--step", o.step, "With a recording: its step (default: the last)").range(std::int64_t{0}, INT64_MAX);
  command.option("--layer", o.layer, "With a recording: its layer (default: the most uneven one)").range(0, INT_MAX);
  command.option("--node-limited", o.node_limited, "With a recording: tokens stay within the model's limited groups");
  command.option("--placement", o.placement, "contiguous, random or balanced").shows_default();
  command.option("--slots", o.slots, "Expert slots a rank for balanced").range(1, 1024);
  command.option("--ep", o.ranks, "Expert-parallel ranks").range(1, 256).shows_default();
  command.option("--ranks-per-node", o.ranks_per_node, "Ranks connected by NVLink").range(1, 256).shows_default();
  command.option("--gpus", o.gpus, "GPUs in all").range(1, kMax).shows_default();
  command.option("--tp", o.tp, "Tensor-parallel ranks (671B: 2, others: 1)").range(1, kMax);
  command.option("--pp", o.pp, "Pipeline stages (671B: 2, others: 1)").range(1, kMax);
  command.option("--virtual-stages", o.virtual_stages, "Pipeline stages a rank").range(1, kMax);
  command.option("--microbatches", o.microbatches, "Microbatches of a step").range(1, kMax);
  command.option("--seq", o.seq, "Tokens of a sequence").range(1, 1 << 24).shows_default();
  command.option("--recompute", o.recompute, "none, selective or full").shows_default();
  command.option("--overlap", o.overlap, "Share of the all-to-all hidden behind compute").range(0.0, 1.0);
  command.option("--hypothesis", o.hypothesis, kHypothesisHelp).shows_default();
  command.option("--seed", o.seed, "Seed of random routings and placements").shows_default();
  command.option("--json", o.json, "Print JSON");
}

}  // namespace

void add_predict_command(CLI::App& app) {
  Command command(app, "predict", "Model the time of a training step, or of measured layers");
  const auto options = std::make_shared<PredictOptions>();
  add_options(command, *options);
  command.footer(
      "Examples:\n"
      "  moescope-cli predict --calibration assets/calibration/h200x8.json\n"
      "  moescope-cli predict --model 671B --hardware b200 --recipe mxfp8 --all-to-all standard\n"
      "  moescope-cli predict --routing run.moescope --recipe mxfp8 --all-to-all deepep --node-limited\n"
      "  moescope-cli predict --routing zipf:0.6 --ep 64 --all-to-all deepep --hypothesis h1 --json");
  command.runs([options, command] {
    if (options->calibration.empty())
      predict_step(command, *options);
    else
      predict_layers(command, *options);
  });
}

}  // namespace moescope
