#include "core/lessons/toml_section.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "core/config/config_field.h"
#include "core/config/config_rules.h"
#include "core/config/config_toml.h"
#include "core/io/assets.h"
#include "core/io/words.h"

namespace moescope {
namespace {

void add_settings(const toml::table& table, const std::string& prefix, const std::string& path, bool live,
                  std::vector<LessonSetting>& settings, TomlProblems& problems) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const int line = static_cast<int>(key.source().begin.line);
    const ConfigField* field = find_field(name);
    if (!field && node.is_table()) {
      add_settings(*node.as_table(), name, path, live, settings, problems);
    } else if (!field) {
      problems.add(line, path + "." + name, "no such setting, did you mean " + nearest_key(name) + "?");
    } else if (live && !field->live) {
      problems.add(line, path + "." + name, "cannot be changed while a run trains");
    } else if (const auto value = value_of(node, *field); !value) {
      problems.add(line, path + "." + name, "must be a number, a text, true or false");
    } else if (const std::string message = check_field(*field, *value); !message.empty()) {
      problems.add(line, path + "." + name, message);
    } else {
      settings.push_back({*field, *value});
    }
  }
}

// Notes the line of each setting in a table of settings.
void add_lines(const toml::table& table, const std::string& prefix, std::map<Setting, int>& lines) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    if (const ConfigField* field = find_field(name))
      lines[*field] = static_cast<int>(key.source().begin.line);
    else if (node.is_table())
      add_lines(*node.as_table(), name, lines);
  }
}

void add_lines_of_set(TomlSection& section, std::map<Setting, int>& lines) {
  if (const toml::table* table = section.table("set")) add_lines(*table, "", lines);
}

// Reports the problems of a run at the lines of its settings, or else at that of its preset.
void check_run(const RunConfig& config, const std::map<Setting, int>& lines, TomlSection& section) {
  std::vector<ConfigProblem> found;
  std::set<Setting> bad;
  for (const ConfigField& field : config_fields()) {
    std::string message = check_field(field, field.get(config));
    if (message.empty()) continue;
    found.push_back({"", lines.contains(field) ? lines.at(field) : 0, field.key, std::move(message)});
    bad.insert(field);
  }
  add_rule_problems(config, bad, lines, "", found);
  for (const ConfigProblem& problem : found) {
    const std::string what = "run " + config.name + ": " + problem.message;
    if (problem.line > 0)
      section.problems().add(problem.line, problem.key, what);
    else
      section.problem("preset", what + " (" + problem.key + ")");
  }
}

void apply_settings(RunConfig& config, const std::vector<LessonSetting>& settings) {
  for (const auto& [setting, value] : settings) setting.field().set(config, value);
}

}  // namespace

int line_of(const toml::node& node) {
  return static_cast<int>(node.source().begin.line);
}

void TomlProblems::add(int line, const std::string& key, const std::string& message) {
  found.push_back({file, line, key, message});
}

void TomlProblems::sort() {
  std::ranges::stable_sort(found, {}, &ConfigProblem::line);
}

TomlSection::TomlSection(const toml::table& table, std::string path, TomlProblems& problems)
    : table_(table), path_(std::move(path)), problems_(problems) {}
TomlSection::~TomlSection() {
  for (const auto& [key, node] : table_)
    if (!used_.contains(key.str()))
      problems_.add(static_cast<int>(key.source().begin.line), path(key.str()),
                    "no such key; allowed: " + joined(used_, ", "));
}

const toml::node* TomlSection::node(std::string_view key) {
  used_.insert(std::string(key));
  return table_.get(key);
}

std::string TomlSection::path(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

std::string TomlSection::text(std::string_view key) {
  const toml::node* found = node(key);
  if (!found) return {};
  if (const auto* value = found->as_string()) return **value;
  problem(key, "must be text in quotes");
  return {};
}

std::string TomlSection::required_text(std::string_view key) {
  if (!has(key)) problem(key, "is missing");
  return text(key);
}

double TomlSection::number(std::string_view key, double otherwise, double min, double max) {
  const toml::node* found = node(key);
  if (!found) return otherwise;
  const auto value = found->value<double>();
  if (value && found->is_number() && *value >= min && *value <= max) return *value;
  problem(key, "must be a number from " + to_string(ConfigValue(min)) + " to " + to_string(ConfigValue(max)));
  return otherwise;
}

std::int64_t TomlSection::integer(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max) {
  const toml::node* found = node(key);
  if (!found) return otherwise;
  if (const auto* value = found->as_integer(); value && **value >= min && **value <= max) return **value;
  problem(key, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return otherwise;
}

std::optional<std::int64_t> TomlSection::optional_integer(std::string_view key, std::int64_t min, std::int64_t max) {
  return node(key) ? std::optional(integer(key, 0, min, max)) : std::nullopt;
}

std::vector<std::string> TomlSection::texts(std::string_view key) {
  const toml::node* found = node(key);
  std::vector<std::string> list;
  if (!found) return list;
  const toml::array* array = found->as_array();
  if (!array || !std::all_of(array->begin(), array->end(), [](const toml::node& n) { return n.is_string(); })) {
    problem(key, "must be a list of texts: [\"...\", \"...\"]");
    return list;
  }
  for (const toml::node& each : *array) list.push_back(**each.as_string());
  return list;
}

int TomlSection::choice(std::string_view key, std::initializer_list<std::string_view> choices, int otherwise) {
  if (!node(key)) return otherwise;
  const std::string given = text(key);
  const auto* found = std::ranges::find(choices, given);
  if (found != choices.end()) return static_cast<int>(found - choices.begin());
  problem(key, "is \"" + given + "\"; allowed: " + joined(choices, ", "));
  return otherwise;
}

const toml::table* TomlSection::table(std::string_view key) {
  const toml::node* found = node(key);
  if (!found || found->is_table()) return found ? found->as_table() : nullptr;
  problem(key, "must be a table");
  return nullptr;
}

bool TomlSection::inside(std::string_view key, const std::function<void(TomlSection&)>& take) {
  const toml::table* found = table(key);
  if (!found) return false;
  TomlSection section(*found, path(key), problems_);
  take(section);
  return true;
}

void TomlSection::each(std::string_view key, const std::function<void(TomlSection&)>& take) {
  const toml::node* found = node(key);
  if (!found) return;
  const toml::array* array = found->as_array();
  if (!array || !array->is_array_of_tables()) return problem(key, "must be written as [[" + path(key) + "]]");
  int n = 0;
  for (const toml::node& entry : *array) {
    TomlSection section(*entry.as_table(), path(key) + " " + std::to_string(++n), problems_);
    take(section);
  }
}

std::vector<std::string_view> assets_in(std::string_view folder) {
  std::vector<std::string_view> names;
  for (const Asset& each : assets())
    if (each.name.starts_with(folder)) names.push_back(each.name);
  std::ranges::sort(names);
  return names;
}

std::string name_without_number(std::string_view file) {
  std::string name = std::filesystem::path(file).stem().string();
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits != std::string::npos && digits > 0 && name[digits] == '-') name.erase(0, digits + 1);
  return name;
}

std::vector<LessonSetting> settings_of(TomlSection& section, bool live, std::string_view key) {
  std::vector<LessonSetting> settings;
  if (const toml::table* table = section.table(key))
    add_settings(*table, "", section.path(key), live, settings, section.problems());
  return settings;
}

std::vector<RunConfig> read_runs(TomlSection& section, std::optional<std::int64_t> seed) {
  std::vector<RunConfig> runs;
  const std::string preset = section.required_text("preset");
  const ParsedConfig parsed = load_preset(preset);
  if (!preset.empty())
    for (const ConfigProblem& problem : parsed.problems) section.problem("preset", problem.message);
  RunConfig first = parsed.config;
  if (section.node("name")) first.name = section.text("name");
  apply_settings(first, settings_of(section, false));
  const std::int64_t shift = seed ? *seed - first.seed : 0;
  runs.push_back(first);
  std::vector<std::map<Setting, int>> lines(1);
  add_lines_of_set(section, lines.front());
  section.each("run", [&](TomlSection& run) {
    RunConfig config = first;
    config.name = run.required_text("name");
    apply_settings(config, settings_of(run, false));
    runs.push_back(config);
    add_lines_of_set(run, lines.emplace_back(lines.front()));
  });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].seed += shift;
    check_run(runs[i], lines[i], section);
  }
  if (runs.size() > 4) section.problem("run", "at most 4 runs can be compared");
  return runs;
}

}  // namespace moescope
