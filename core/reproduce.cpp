#include "core/reproduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

#include "core/trainer.h"

namespace moescope {
namespace {

constexpr const char* kMixtureKey = "data.mixture";
constexpr const char* kArrow = " -> ";

RunConfig config_of(const RunInfo& info) {
  const ParsedConfig parsed = parse_config(info.config_toml, info.name);
  if (!parsed.problems.empty())
    throw std::runtime_error(info.name +
                             ": its recorded settings do not fit this version: " + parsed.problems.front().text());
  return parsed.config;
}

std::string toml_value(const ConfigField& field, const std::string& text) {
  const ConfigValue sample = field.get(RunConfig{});
  if (!std::holds_alternative<std::string>(sample)) return text;
  return '"' + (text == "none" && field.choices.empty() ? std::string() : text) + '"';
}

// "router.bias_update_rate 0.001 -> 0.01" as the lab marks it.
LiveChange change_of(const Marker& marker) {
  const auto space = marker.text.find(' ');
  const auto arrow = marker.text.find(kArrow);
  const ConfigField* field = find_field(marker.text.substr(0, space));
  const auto fail = [&](const std::string& why) {
    return std::runtime_error("the change at step " + std::to_string(marker.step) + " cannot be made again: \"" +
                              marker.text + "\" " + why);
  };
  if (!field || arrow == std::string::npos) throw fail("names no setting");
  std::string value = marker.text.substr(arrow + std::string_view(kArrow).size());
  if (field->key == kMixtureKey) value = value.substr(0, value.find(" ("));  // what is said of it
  const auto dot = field->key.find('.');
  const ParsedConfig parsed = parse_config(
      "[" + field->key.substr(0, dot) + "]\n" + field->key.substr(dot + 1) + " = " + toml_value(*field, value) + "\n",
      "change");
  LiveChange change{0, field->key, field->get(parsed.config)};
  if (const std::string problem = check_field(*field, change.value); !problem.empty()) throw fail(problem);
  return change;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

std::multimap<std::int64_t, LiveChange> changes_of(const History& history) {
  std::multimap<std::int64_t, LiveChange> changes;
  for (const Marker& marker : history.markers()) {
    if (marker.kind != "change" || marker.run != history.info().run) continue;
    if (!marker.text.starts_with("telemetry.")) changes.emplace(marker.step, change_of(marker));  // what is looked at
  }
  return changes;
}

}  // namespace

std::string Reproduction::text() const {
  const std::string steps = std::to_string(compared) + (compared == 1 ? " step" : " steps");
  if (differs_at < 0) return "The same losses to the bit over " + steps + ".";
  const auto shown = [](float loss) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(loss));
    return std::string(text);
  };
  return "The losses differ from step " + std::to_string(differs_at) + " on: " + shown(recorded) + " recorded, " +
         shown(computed) + " now; the " + std::to_string(compared - 1) + " before are the same to the bit.";
}

std::string reproduce_problem(const RunInfo& first, const History& history) {
  const RunInfo& info = history.info();
  if (info.config_toml.empty() || first.config_toml.empty())
    return info.name + " was not trained here: its log has no settings to train from";
  if (history.steps().empty()) return info.name + " has no steps";
  if (history.steps().first != 0)
    return info.name + " begins with step " + std::to_string(history.steps().first) +
           ", resumed or branched off: what it was at that step is in a checkpoint, not in the recording";
  return {};
}

Reproduction reproduce(const RunInfo& first, const History& history, std::int64_t steps,
                       const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  if (const std::string problem = reproduce_problem(first, history); !problem.empty())
    throw std::runtime_error(problem);
  const RunConfig of_first = config_of(first);
  const std::unique_ptr<Dataset> data = open_dataset(of_first.data, of_first.seed);
  const auto changes = changes_of(history);
  Trainer trainer(config_of(history.info()));
  Mixture mixture = data->mixture(of_first.data.mixture);
  const std::int64_t recorded_steps = history.steps().size();
  const std::int64_t all = steps < 0 ? recorded_steps : std::min(steps, recorded_steps);
  const std::vector<float> losses = history.values(Metric::ce_loss, kWholeRun, {0, all - 1});
  Reproduction result;
  for (std::int64_t step = 0; step < all && progress(step, all); ++step) {
    const auto [begin, end] = changes.equal_range(step);
    for (auto change = begin; change != end; ++change) {
      trainer.apply(change->second);
      if (change->second.key == kMixtureKey) mixture = data->mixture(std::get<std::string>(change->second.value));
    }
    const float loss = trainer.step(data->batch(step, mixture)).ce_loss;
    const float recorded = losses[static_cast<std::size_t>(step)];
    ++result.compared;
    if (same_bits(loss, recorded)) continue;
    result.differs_at = step, result.recorded = recorded, result.computed = loss;
    return result;
  }
  return result;
}

}  // namespace moescope
