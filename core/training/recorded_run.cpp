#include "core/training/recorded_run.h"

#include <algorithm>
#include <stdexcept>

namespace moescope {
namespace {

constexpr const char* kArrow = " -> ";
constexpr const char* kForAll = " (for all runs, which read the same batches)";
constexpr const char* kNone = "none";  // an empty text

// A whole probe text would be too long for the timeline.
std::string shortened(std::string text) {
  constexpr std::size_t kLongest = 48;
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a UTF-8 sequence
  return text.substr(0, end) + "...";
}

}  // namespace

std::string change_text(const ConfigField& field, const RunConfig& before, const ConfigValue& value,
                        bool for_all_runs) {
  const auto shown = [](const std::string& text) { return text.empty() ? kNone : text; };
  return field.key + ' ' + shown(shortened(to_string(field.get(before)))) + kArrow + shown(to_string(value)) +
         (for_all_runs ? kForAll : "");
}

LiveChange recorded_change(const Marker& marker) {
  const std::string& text = marker.text;
  const auto fail = [&](const std::string& why) {
    return std::runtime_error("the change at step " + std::to_string(marker.step) + " cannot be repeated: \"" + text +
                              "\" " + why);
  };
  const auto arrow = text.find(kArrow);
  const ConfigField* field = find_field(text.substr(0, text.find(' ')));
  if (!field || arrow == std::string::npos) throw fail("names no setting");
  std::string value = text.substr(arrow + std::string_view(kArrow).size());
  value = value.substr(0, value.find(kForAll));
  const bool is_text = std::holds_alternative<std::string>(field->get({}));
  if (is_text && value.ends_with("...")) throw fail("does not say the new value in full");
  if (is_text && value == kNone && field->choices.empty()) value.clear();
  try {
    const LiveChange change{marker.run, field->key, parse_value(*field, value)};
    if (const std::string problem = check_field(*field, change.value); !problem.empty()) throw fail(problem);
    return change;
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

StepChanges recorded_changes(const History& history) {
  StepChanges changes;
  for (const Marker& marker : history.markers())
    if (marker.kind == "change" && marker.run == history.info().run && !marker.text.starts_with("telemetry."))
      changes.emplace_back(marker.step, recorded_change(marker));
  std::ranges::stable_sort(changes, {}, &StepChanges::value_type::first);
  return changes;
}

}  // namespace moescope
