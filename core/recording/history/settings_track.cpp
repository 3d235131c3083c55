#include "core/recording/history/settings_track.h"

#include <algorithm>
#include <utility>

#include "core/config/config_toml.h"
#include "core/files/text/json_text.h"

namespace moescope {
namespace {

// Adds the settings of an object; those of objects in it have names with dots: "optimizer.lr".
void add_settings(const nlohmann::json& object, const std::string& prefix, LogSettings& settings) {
  for (const auto& [name, value] : object.items())
    if (value.is_object() && !value.empty())
      add_settings(value, prefix + name + '.', settings);
    else
      settings[prefix + name] = value.is_string() ? value.get<std::string>() : value.dump();
}

// Returns the settings in the text of a marker that an import wrote; empty if the text has none.
LogSettings settings_in(const std::string& text) {
  LogSettings settings;
  try {
    if (const nlohmann::json json = parse_json(text); json.is_object()) add_settings(json, "", settings);
  } catch (const BadJson&) {
    return {};
  }
  return settings;
}

RunSettings settings_of(const RunInfo& info) {
  if (info.config_toml.empty()) return {};
  const ParsedConfig parsed = parse_config(info.config_toml, info.name);
  const bool is_toml = parsed.problems.empty() || !parsed.problems.front().key.empty();
  return is_toml ? RunSettings(parsed.config) : RunSettings();
}

}  // namespace

SettingsTrack::SettingsTrack(const RunInfo& info)
    : run_(info.run), at_start_(std::make_shared<const RunSettings>(settings_of(info))) {}

void SettingsTrack::add(const Marker& marker) {
  const bool is_program = marker.kind == kProgramMarker;
  if ((is_program || marker.kind == kSettingsMarker) && !at_start_->config()) {
    LogSettings log = is_program ? LogSettings() : settings_in(marker.text);
    log.insert(at_start_->log().begin(), at_start_->log().end());
    at_start_ = std::make_shared<const RunSettings>(std::move(log), is_program ? marker.text : at_start_->program());
    return recompute(0);
  }
  const ConfigField* field = marker.kind == kChangeKind && marker.run == run_ ? find_field(marker.key) : nullptr;
  if (!field) return;
  const auto place = std::ranges::upper_bound(changes_, marker.step, {}, &Change::step);
  const std::size_t from = place - changes_.begin();
  changes_.insert(place, {marker.step, *field, marker.value, nullptr});
  recompute(from);
}

void SettingsTrack::recompute(std::size_t from) {
  for (std::size_t i = from; i < changes_.size(); ++i) {
    RunSettings settings = i == 0 ? *at_start_ : *changes_[i - 1].settings;
    settings.change(changes_[i].setting, changes_[i].text);
    changes_[i].settings = std::make_shared<const RunSettings>(std::move(settings));
  }
}

std::shared_ptr<const RunSettings> SettingsTrack::at(std::int64_t step) const {
  const auto after = std::ranges::upper_bound(changes_, step, {}, &Change::step);
  return after == changes_.begin() ? at_start_ : std::prev(after)->settings;
}

}  // namespace moescope
