#include "core/lessons/toml_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/config/config_field.h"
#include "core/config/config_rules.h"
#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/training/engine/lock_step.h"

namespace moescope {
namespace {

void add_settings(const toml::table& table, const std::string& prefix, const std::string& path, bool live,
                  std::vector<LessonSetting>& settings, SettingLines* lines, TomlProblems& problems) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const int line = key.source().begin.line;
    const ConfigField* field = find_field(name);
    if (!field && node.is_table()) {
      add_settings(*node.as_table(), name, path, live, settings, lines, problems);
    } else if (!field) {
      problems.add(line, path + "." + name, "no such setting, did you mean " + nearest_key(name) + "?");
    } else if (live && !field->live) {
      problems.add(line, path + "." + name, kNotLive);
    } else {
      ConfigValue value;
      if (lines) (*lines)[*field] = line;
      if (const std::string message = read_value(node, *field, value); !message.empty())
        problems.add(line, path + "." + name, message);
      else
        settings.push_back({*field, std::move(value)});
    }
  }
}

// Reports the problems of a run at the lines of its settings, or else at that of its preset.
void check_run(const RunConfig& config, const SettingLines& lines, TomlSection& section) {
  for (const ConfigProblem& problem : validate(config, lines)) {
    const std::string what = "run " + config.name + ": " + problem.message;
    if (problem.line > 0)
      section.problems().add(problem.line, problem.key, what);
    else
      section.problem("preset", what + " (" + problem.key + ")");
  }
}

}  // namespace

std::vector<std::string_view> assets_in(std::string_view folder) {
  std::vector<std::string_view> names;
  for (const Asset& file : assets())
    if (file.name.starts_with(folder)) names.push_back(file.name);
  std::ranges::sort(names);
  return names;
}

std::string name_without_number(std::string_view file) {
  std::string name = std::filesystem::path(file).stem().string();
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits != std::string::npos && digits > 0 && name[digits] == '-') name.erase(0, digits + 1);
  return name;
}

std::vector<std::string> names_in(std::string_view folder) {
  std::vector<std::string> names;
  for (const std::string_view file : assets_in(folder)) names.push_back(name_without_number(file));
  return names;
}

int read_run(TomlSection& section, std::string_view key, int otherwise, std::size_t runs) {
  const int run = section.choice(key, {"A", "B", "C", "D", "E"}, otherwise);
  if (run > 0 && static_cast<std::size_t>(run) >= runs)
    section.problem(key,
                    fmt::format("there is no run {}: the number of runs is {}", static_cast<char>('A' + run), runs));
  return run;
}

void apply_settings(const std::vector<LessonSetting>& settings, RunConfig& config) {
  for (const auto& [setting, value] : settings) setting.field().set(config, value);
}

std::vector<LessonSetting> settings_of(TomlSection& section, bool live, std::string_view key, SettingLines* lines) {
  std::vector<LessonSetting> settings;
  if (const toml::table* table = section.table(key))
    add_settings(*table, "", section.path(key), live, settings, lines, section.problems());
  return settings;
}

std::vector<RunConfig> read_runs(TomlSection& section, std::optional<std::int64_t> seed) {
  std::vector<RunConfig> runs;
  const std::string preset = section.required_text("preset");
  const ParsedConfig parsed = load_preset(preset);
  if (!preset.empty())
    for (const ConfigProblem& problem : parsed.problems) section.problem("preset", problem.message);
  RunConfig first = parsed.config;
  first.portable = true;  // everyone has the same losses; a step of nano takes at most 1.2 times as long
  if (section.node("name")) first.name = section.text("name");
  std::vector<SettingLines> lines(1);
  apply_settings(settings_of(section, false, "set", &lines.front()), first);
  const std::int64_t shift = seed ? *seed - first.seed : 0;
  runs.push_back(first);
  section.for_each_section("run", [&](TomlSection& run) {
    RunConfig config = first;
    config.name = run.required_text("name");
    apply_settings(settings_of(run, false, "set", &lines.emplace_back(lines.front())), config);
    runs.push_back(config);
  });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].seed += shift;
    check_run(runs[i], lines[i], section);
  }
  if (runs.size() > std::size_t{kMaxRuns}) section.problem("run", "at most 5 runs can be compared");
  return runs;
}

}  // namespace moescope
