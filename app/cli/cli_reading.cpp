#include "app/cli/cli_reading.h"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "core/cluster/ranks/routing_patterns.h"
#include "core/files/text/text_escape.h"
#include "core/logs/runs/log_runs.h"
#include "core/logs/standard_input.h"
#include "core/training/engine/lock_step.h"

namespace moescope {
RecordedStep recorded_step(const std::string& path, int run, std::int64_t step) {
  const RecordingReader reader(path);
  print_missing(reader);
  const auto found = std::ranges::find(reader.runs(), run, &RunInfo::run);
  if (found == reader.runs().end()) throw std::runtime_error(fmt::format("{}: has no run {}", path, run));
  const auto history = reader.load(run);
  const auto frame = history->frame_at(step < 0 ? INT64_MAX : step);
  if (const std::int64_t last = history->steps().last; frame && step > last)
    throw std::runtime_error(fmt::format("{}: ends with step {}, before step {}", path, last, step));
  if (!frame)
    throw std::runtime_error(path + ": has no step with router statistics" +
                             (step < 0 ? std::string() : fmt::format(" at or before step {}", step)));
  return {*found, frame};
}

bool RoutingOptions::names_file() const {
  return routing.ends_with(".moescope") || std::filesystem::is_regular_file(routing);
}

Option add_routing_options(Command& command, RoutingOptions& o, const RoutingHelp& help) {
  Option routing = command.option("--routing", o.routing,
                                  "forced, uniform, grouped[:LIMITED[/GROUPS]], zipf:S, or a recording: the load of "
                                  "its router, stretched to the model's experts" +
                                      help.routing);
  routing.shows_default();
  command.option("--run", o.run, "Run of the recording").shows_default();
  command.option("--step", o.step, "Step of the recording (default: the last)").range(std::int64_t{0}, INT64_MAX);
  command.option("--layer", o.layer, "Layer of the recording (default: " + help.layer + "the most uneven)")
      .range(0, INT_MAX);
  command
      .option("--placement", o.placement,
              "Which expert is on which rank; balanced: replicate and pack, as EPLB does for inference")
      .one_of({"contiguous", "random", "balanced"})
      .shows_default();
  command
      .option("--slots", o.slots,
              "Expert slots per rank with --placement balanced; more than experts / ranks leaves replicas")
      .range(1, 1024);
  command.option("--ranks-per-node", o.ranks_per_node, "Ranks connected by NVLink").range(1, 256).shows_default();
  command.option("--seed", o.seed, "Seed of random routings and placements").shows_default();
  return routing;
}

ChosenExperts choose_experts(const RoutingOptions& o, const ModelShape& shape, std::int64_t tokens) {
  const int top_k = to_int(shape.top_k), n_experts = to_int(shape.n_experts);
  const int n_groups = to_int(shape.n_groups), limited_groups = to_int(shape.limited_groups);
  if (!o.names_file()) {
    RoutingPattern groups;
    if (n_groups) groups.n_groups = n_groups;
    if (limited_groups) groups.limited_groups = limited_groups;
    const RoutingPattern pattern = parse_routing_pattern(o.routing, groups);
    return {route_by_pattern(pattern, tokens, top_k, n_experts, o.seed), routing_pattern_name(pattern), {}};
  }
  const RecordedStep step = recorded_step(o.routing, o.run, o.step);
  const RouterFrame* chosen = nullptr;
  for (const RouterFrame& router : step.frame->routers) {
    const bool is_chosen = o.layer < 0 ? !chosen || router.max_vio > chosen->max_vio : router.layer == o.layer;
    if (is_chosen && !router.tokens_per_expert.empty()) chosen = &router;
  }
  if (!chosen)
    throw std::runtime_error(fmt::format("{}: has no tokens per expert of {} at step {}", o.routing,
                                         o.layer < 0 ? std::string("any layer") : fmt::format("layer {}", o.layer),
                                         step.frame->step));
  return {route_by_load(stretch_load(chosen->tokens_per_expert, n_experts, o.seed), tokens, top_k, n_groups,
                        o.node_limited ? limited_groups : 0, o.seed),
          fmt::format("the load of layer {}{} at step {} of {} ({} experts, stretched to the model's){}", chosen->layer,
                      o.layer < 0 ? ", the most uneven one," : "", step.frame->step, o.routing,
                      chosen->tokens_per_expert.size(), o.node_limited ? ", node-limited" : ""),
          chosen->tokens_per_expert};
}

Placement placement_named(const RoutingOptions& o, std::span<const std::int32_t> topk_TK, const ModelShape& shape) {
  const int n_experts = to_int(shape.n_experts);
  if (o.slots > 0 && o.placement != "balanced") throw std::runtime_error("--slots needs --placement balanced");
  if (o.placement == "contiguous") return place_contiguous(n_experts, o.ranks);
  if (o.placement == "random") return place_random(n_experts, o.ranks, o.seed);
  std::vector<std::uint64_t> load(n_experts);
  for (const std::int32_t expert : topk_TK)
    if (expert >= 0) ++load[expert];
  return place_balanced(load, o.ranks, {o.slots, std::max(1, to_int(shape.n_groups)), o.ranks_per_node});
}

void add_routed_options(Command& command, RoutedShape& routed) {
  command
      .option("--layers", routed.layers,
              "Layers of the model, for a file that does not state them (default: the file's)")
      .range(1, to_int(kMaxImportedLayers));
  command
      .option("--top-k", routed.top_k,
              "Experts of a token in a layer, for a file that does not state them (default: the file's)")
      .range(1, 1024);
  command
      .option("--experts", routed.experts,
              "Experts of a layer, for a file that does not state them; higher numbers of routed experts are slots "
              "without an expert (default: the highest)")
      .range(1, to_int(kMaxImportedExperts));
}

std::string input_path(const std::string& file) {
  static std::unique_ptr<StandardInput> input;
  if (file != kStandardInput) return file;
  if (input) throw std::runtime_error("- (standard input) is named twice, but can be read only once");
  input = std::make_unique<StandardInput>();
  input->wait_for_end({});
  if (const std::string problem = input->problem(); !problem.empty())
    throw std::runtime_error("standard input: " + problem);
  return input->path();
}

void add_run_option(Command& command, std::string& run) {
  command.option(
      "--run", run,
      "The run to read, of a file that holds several (recordings, mlflow.db, folders of TensorBoard and W&B): "
      "its name; of MLflow also its id");
}

OpenedRuns read_runs(const std::string& file, const std::string& run, const RoutedShape& routed) {
  ImportOptions options;
  options.routed = routed;
  if (!run.empty()) options.only = {run};
  OpenedRuns opened = open_runs({file}, options, kMaxRuns);
  if (run.empty() || opened.more.empty()) return opened;  // readers of logs choose the run themselves
  std::vector<std::string> names;
  for (const auto& history : opened.histories) names.push_back(history->info().name);
  check_choice(file, names, options);
  std::erase_if(opened.histories, [&](const auto& history) { return !is_wanted(options, history->info().name); });
  return opened;
}

void print_missing(const RecordingReader& recording) {
  if (!recording.missing().empty()) print_to(stderr, "moescope-cli: {}\n", recording.missing());
}

void print_remarks(const OpenedRuns& opened) {
  for (const std::string& remark : opened.remarks) print_to(stderr, "{}\n", printable(remark));
}

void print_notes(const OpenedRuns& opened) {
  print_remarks(opened);
  for (const SkippedLines& file : opened.skipped)
    print_to(stderr, "{}: {}\n", printable(file.path), printable(file.bad.summary()));
}

}  // namespace moescope
