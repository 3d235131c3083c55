// Reads the runs and settings of lessons and claims.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/text/toml_section.h"
#include "core/lessons/lesson.h"

namespace moescope {

// Reads a table of keys of the run config, dotted or nested: { router.top_k = 4 } or { "router.top_k" = 4 }. `live`:
// settings that cannot change while a run trains are problems. `lines`: gets the line of each setting.
using SettingLines = std::map<Setting, int>;
std::vector<LessonSetting> settings_of(TomlSection& section, bool live, std::string_view table = "set",
                                       SettingLines* lines = nullptr);

// Returns the sorted names of the built-in files whose names begin with `folder`.
std::vector<std::string_view> assets_in(std::string_view folder);
// Returns "bias-thermostat" for "lessons/02-bias-thermostat.toml".
std::string name_without_number(std::string_view file);
std::vector<std::string> names_in(std::string_view folder);  // of the built-in files, without their numbers

// Returns the result for a file that could not be read: `reason` is its only problem.
template <class Parsed>
Parsed unread(std::string_view file, const std::string& reason) {
  return {{}, {{std::string(file), 0, "", reason}}};
}

// Returns the index of the run whose letter the key has. `runs`: how many there are; another letter is a problem.
int read_run(TomlSection& section, std::string_view key, int otherwise, std::size_t runs);
void apply_settings(const std::vector<LessonSetting>& settings, RunConfig& config);

// Reads the keys preset, name and set, and a [[...run]] for every run except A. `seed` as in parse_lesson().
std::vector<RunConfig> read_runs(TomlSection& section, std::optional<std::int64_t> seed);

}  // namespace moescope
