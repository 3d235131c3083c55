#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/findings/comparison/regression_gate.h"

namespace moescope {
namespace {

using NamedValues = std::map<std::string, std::string>;

constexpr const char* kNotGiven = "not given";

std::shared_ptr<const RunSettings> last_settings(const History& run) {
  return run.settings_at(run.steps().last);
}

// Returns what the log of another program states, and the sizes that its loads show.
NamedValues logged_settings(const History& run) {
  NamedValues values = last_settings(run)->log();
  for (const char* name : {"run", "name", "run_name"}) values.erase(name);
  const RunInfo& info = run.info();
  const auto add = [&](const char* name, std::int64_t value) {
    if (value > 0) values.try_emplace(name, std::to_string(value));
  };
  add("n_layers", info.n_layers);
  add("n_experts", info.n_experts);
  add("top_k", info.top_k);
  add("tokens_per_step", info.tokens_per_step);
  return values;
}

NamedValues config_settings(const History& run) {
  NamedValues values;
  const auto settings = last_settings(run);
  for (const ConfigField& field : config_fields()) {
    const Setting setting(field);
    if (field.derived || setting == &RunConfig::name || setting.is_in<TelemetryConfig>() ||
        setting.is_in<ParallelConfig>())
      continue;
    if (const auto text = settings->text(setting)) values[field.key] = *text;
  }
  return values;
}

std::string value_of(const NamedValues& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) return kNotGiven;
  return found->second.empty() ? "none" : found->second;
}

std::optional<std::int64_t> last_change(const History& run, const std::string& key) {
  std::optional<std::int64_t> step;
  for (const Marker& marker : run.markers())
    if (marker.kind == kChangeKind && marker.key == key && marker.run == run.info().run) step = marker.step;
  return step;
}

}  // namespace

bool is_one_sided(const GateSetting& setting) {
  return setting.value == kNotGiven || std::ranges::find(setting.good, kNotGiven) != setting.good.end();
}

std::vector<GateSetting> differing_settings(const History& run, std::span<const HistoryPtr> good) {
  const auto is_log = [](const History& history) { return !last_settings(history)->config(); };
  const bool only_logs = is_log(run) && std::ranges::all_of(good, [&](const HistoryPtr& h) { return is_log(*h); });
  const auto settings_of = only_logs ? logged_settings : config_settings;
  const NamedValues run_values = settings_of(run);
  std::vector<NamedValues> good_values;
  std::set<std::string> names;
  for (const auto& [name, value] : run_values) names.insert(name);
  for (const HistoryPtr& history : good) {
    good_values.push_back(settings_of(*history));
    for (const auto& [name, value] : good_values.back()) names.insert(name);
  }
  // A config and the log of another program have only few settings in common.
  const bool is_mixed =
      !only_logs && (is_log(run) || std::ranges::any_of(good, [&](const HistoryPtr& h) { return is_log(*h); }));
  std::vector<GateSetting> differing;
  for (const std::string& name : names) {
    GateSetting setting{name, value_of(run_values, name), {}};
    for (const NamedValues& values : good_values) setting.good.push_back(value_of(values, name));
    const auto differs_from = [&](const std::string& value) { return value != setting.good.front(); };
    setting.differs_among_good = std::ranges::any_of(setting.good, differs_from);
    if ((!setting.differs_among_good && !differs_from(setting.value)) || (is_mixed && is_one_sided(setting))) continue;
    setting.changed_at = last_change(run, name);
    differing.push_back(std::move(setting));
  }
  std::ranges::stable_sort(differing, {}, [](const GateSetting& setting) {
    const bool is_missing_in_good = std::ranges::find(setting.good, kNotGiven) != setting.good.end();
    return 4 * setting.differs_among_good + 2 * (setting.value == kNotGiven) + is_missing_in_good;
  });
  return differing;
}

}  // namespace moescope
