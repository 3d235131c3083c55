#include "core/training/recorded_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "core/config/config_toml.h"
#include "core/frame/frame.h"

namespace moescope {

LiveChange recorded_change(const Marker& marker) {
  const auto fail = [&](const std::string& reason) {
    return std::runtime_error(
        fmt::format("the change at step {} cannot be repeated: \"{}\" {}", marker.step, marker.text, reason));
  };
  const ConfigField* field = find_field(marker.key);
  if (!field) throw fail("names no setting");
  try {
    return {marker.run, *field, parse_value(*field, marker.value)};
  } catch (const std::invalid_argument& problem) {
    throw fail(problem.what());
  }
}

RunConfig recorded_config(const RunInfo& info) {
  if (info.config_toml.empty()) throw std::runtime_error("the settings of run " + info.name + " are not known");
  ParsedConfig parsed = parse_config(info.config_toml, info.name);
  if (!parsed.problems.empty())
    throw std::runtime_error(info.name +
                             ": its recorded settings do not fit this version: " + parsed.problems.front().text());
  return std::move(parsed.config);
}

std::set<std::string> named_inputs(const RunConfig& config) {
  std::set<std::string> inputs;
  for (const Setting setting :
       {Setting(&ModelConfig::initial_weights), Setting(&DataConfig::path), Setting(&DataConfig::tokenizer)})
    if (const auto path = std::get<std::string>(setting.field().get(config)); !path.empty())
      inputs.insert(setting.key() + ": " + path);
  return inputs;
}

StepChanges recorded_changes(const History& history) {
  StepChanges changes;
  for (const Marker& marker : history.markers())
    if (marker.kind == kChangeKind && marker.run == history.info().run && !marker.key.starts_with("telemetry."))
      changes.emplace_back(marker.step, recorded_change(marker));
  std::ranges::stable_sort(changes, {}, &StepChanges::value_type::first);
  return changes;
}

}  // namespace moescope
