#include "app/cli/placement_plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/cli_reading.h"
#include "app/cli/printing.h"
#include "core/cluster/ranks/placement.h"
#include "core/files/output_guard.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"

namespace moescope {
namespace {

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

// Load of the fullest rank, in units of the mean.
double overload(const Placement& placement, const Loads& loads) {
  const std::vector<double> by_rank = rank_loads(placement, loads);
  const double mean = std::accumulate(by_rank.begin(), by_rank.end(), 0.0) / by_rank.size();
  return *std::ranges::max_element(by_rank) / mean;
}

// The expert of each slot, [ranks * slots]: the slots of a rank follow each other.
std::vector<int> experts_of_slots(const Placement& placement) {
  std::vector<int> experts;
  for (int rank = 0; rank < placement.ranks; ++rank)
    for (int expert = 0; expert < placement.n_experts(); ++expert)
      for (int i = placement.first_replica[expert]; i < placement.first_replica[expert + 1]; ++i)
        if (placement.replica_rank[i] == rank) experts.push_back(expert);
  return experts;
}

std::shared_ptr<const History> planned_run(const PlacementPlanOptions& options) {
  const OpenedRuns opened = read_runs(options.recording, {});
  print_notes(opened);
  for (const auto& history : opened.histories)
    if (history->info().run == options.run) return history;
  const std::string runs =
      joined(opened.histories, ", ", [](const auto& run) { return std::to_string(run->info().run); });
  throw std::runtime_error(fmt::format("{}: has no run {}; allowed: {}", options.recording, options.run, runs));
}

// The steps from which the plan is made, and those after them.
std::pair<StepRange, StepRange> parts_of(const History& run, const PlacementPlanOptions& options) {
  const StepRange steps = run.steps();
  const std::vector<std::int64_t> listed = run.steps_in(steps);
  if (listed.size() < 2)
    throw std::runtime_error(options.recording + ": has fewer than 2 steps; the plan is tried on later steps");
  const std::int64_t until = options.until >= 0 ? options.until : listed[listed.size() / 2 - 1];
  if (until < steps.first || until >= steps.last)
    throw std::runtime_error(
        fmt::format("--plan-until {}: allowed: {} to {}, so that steps are left to try the plan on", until, steps.first,
                    steps.last - 1));
  return {{steps.first, until}, {until + 1, steps.last}};
}

// SGLang reads an object with a row for every layer of the model; rows of dense layers have no effect.
nlohmann::json placement_json(const std::vector<std::pair<int, std::vector<int>>>& rows, int layers, int n_experts) {
  nlohmann::json map = nlohmann::json::array();
  std::vector<int> in_order(rows.front().second.size());
  for (std::size_t slot = 0; slot < in_order.size(); ++slot) in_order[slot] = to_int(slot) % n_experts;
  for (int layer = 0; layer < layers; ++layer) {
    const auto found = std::ranges::find(rows, layer, [](const auto& row) { return row.first; });
    map.push_back(found == rows.end() ? in_order : found->second);
  }
  return {{"physical_to_logical_map", map}};
}

}  // namespace

void write_placement_plan(const PlacementPlanOptions& options) {
  guard_outputs({options.recording}, {{"--write-placement", options.out}}, options.overwrite);
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
  std::vector<std::pair<int, std::vector<int>>> rows;
  const Placement in_order = place_contiguous(info.n_experts, options.ranks);
  for (const int layer : info.moe_layers) {
    const Loads loads = loads_in(*run, layer, plan_steps), later = loads_in(*run, layer, later_steps);
    if (loads.empty() || later.empty()) continue;
    const Placement plan =
        place_balanced(loads, options.ranks, {options.slots, std::max(1, options.groups), options.ranks_per_node});
    table.add(layer, overload(in_order, loads), overload(plan, loads), overload(in_order, later), overload(plan, later),
              experts_sent(in_order, plan));
    rows.emplace_back(layer, experts_of_slots(plan));
  }
  if (rows.empty()) throw std::runtime_error(options.recording + ": has no load by expert in both parts of its steps");
  const std::size_t missing_layers = info.moe_layers.size() - rows.size();
  if (missing_layers > 0)
    print_to(stderr, "{} of {} MoE layers have no load and keep their experts in order\n", missing_layers,
             info.moe_layers.size());
  const int layers = std::max(info.n_layers, rows.back().first + 1);
  write_whole_file(options.out, placement_json(rows, layers, info.n_experts).dump() + "\n");
  Report report;
  report.value({.name = "plan made from steps", .key = "plan_steps"},
               fmt::format("{} to {}", plan_steps.first, plan_steps.last));
  report.value({.name = "tried on steps", .key = "later_steps"},
               fmt::format("{} to {}", later_steps.first, later_steps.last));
  report.value({.name = "slots of a rank", .key = "slots_per_rank"},
               static_cast<std::int64_t>(rows.front().second.size()) / options.ranks);
  report.sentence("Load of the fullest rank, in units of the mean, with experts in their order and by the plan:");
  report.table("layers", table);
  print_report(report, options.json);
}

}  // namespace moescope
