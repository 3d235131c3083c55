#include "core/config/config_toml.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "core/config/config_difference.h"
#include "core/config/config_rules.h"
#include "core/files/assets.h"
#include "core/files/input_file.h"
#include "core/files/text/toml_section.h"
#include "core/files/text/words.h"

namespace moescope {

namespace {

// A config has about 50 lines; a file a thousand times as long is no config.
constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

std::string section_list() {
  std::string text;
  std::string_view last;
  for (const ConfigField& field : config_fields()) {
    if (field.section == last) continue;
    last = field.section;
    text += (text.empty() ? "[" : ", [") + std::string(last) + "]";
  }
  return text;
}

constexpr const char *kPresetKey = "preset", *kCompareKey = "compare";

struct Reader {
  RunConfig config;
  TomlProblems problems;
  std::vector<RunConfig> twins = {};
  std::map<Setting, int> lines = {};
  bool in_list = false;  // reads one of several runs of a file

  // Derived keys, which set other keys, are read first, so that the other keys in the file override them.
  void read(const toml::table& table, const std::string& prefix) {
    for (const bool derived : {true, false}) read_fields(table, prefix, derived);
  }

  void read_fields(const toml::table& table, const std::string& prefix, bool derived) {
    for (const auto& [key, node] : table) {
      const std::string path = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
      const int line = key.source().begin.line;
      if (prefix.empty() && !in_list && (path == kPresetKey || path == kCompareKey)) continue;  // read separately
      const ConfigField* field = find_field(path);
      if ((field && field->derived) != derived) continue;
      if (field)
        read_field(*field, node, line);
      else if (node.is_table() && prefix.empty() && is_section(path))
        read(*node.as_table(), path);
      else if (node.is_table() && prefix.empty())
        problems.add(line, path, "no such section; allowed: " + section_list());
      else
        problems.add(line, path, "no such key, did you mean " + nearest_key(path) + "?");
    }
  }

  static bool is_section(const std::string& name) {
    return std::ranges::find(config_fields(), name, &ConfigField::section) != config_fields().end();
  }

  void read_field(const ConfigField& field, const toml::node& node, int line) {
    lines[field] = line;
    ConfigValue value;
    if (const std::string message = read_value(node, field, value); !message.empty())
      problems.add(line, field.key, message);
    else
      field.set(config, value);
  }

  void check_rules() {
    std::set<Setting> bad;
    for (const FileProblem& problem : problems.found)
      if (const ConfigField* field = find_field(problem.key)) bad.insert(*field);
    add_rule_problems(config, bad, lines, problems.file, problems.found);
  }

  void read_preset(TomlSection& root) {
    const std::optional<std::string> name = root.optional_text(kPresetKey);
    if (!name) return;
    const ParsedConfig preset = load_preset(*name);
    if (!preset.problems.empty()) return root.problem(kPresetKey, preset.problems.front().message);
    config = preset.config;
  }

  void read_comparisons(TomlSection& root) {
    const toml::node* node = root.node(kCompareKey);
    const std::size_t count = node && node->is_array() ? node->as_array()->size() : 0;
    if (count > kMaxCandidates)
      return root.problem(kCompareKey, fmt::format("holds {} twins; allowed: {}", count, kMaxCandidates));
    root.for_each_section(kCompareKey, [this](TomlSection& twin) { read_twin(twin); });
  }

  void read_twin(TomlSection& section) {
    Reader reader{config, {problems.file}};
    reader.in_list = true;
    reader.read(section.unread_table(), "");
    for (const auto& [setting, line] : reader.lines)
      if (setting.is_in<DataConfig>())
        reader.problems.add(line, setting.key(), "runs that are compared read the same batches");
    RunConfig& twin = reader.config;
    if (!section.has("name")) twin.name = twin_name(config, twin);
    if (reader.problems.found.empty() && difference(config, twin).empty())
      section.problem("has the same settings as the run that it is compared with");
    reader.check_rules();
    std::ranges::move(reader.problems.found, std::back_inserter(problems.found));
    twins.push_back(std::move(twin));
  }
};

std::string toml_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;  // check_field refuses control characters
  }
  return quoted + '"';
}

}  // namespace

std::string toml_comment(std::string_view text) {
  constexpr std::size_t kWidth = 110;
  std::string lines;
  for (std::string_view remaining_lines = trimmed(text, " \n"); !remaining_lines.empty();) {
    std::istringstream words{std::string(take_until(remaining_lines, '\n'))};
    std::string line = "#", word;
    while (words >> word) {
      if (line.size() + 1 + word.size() > kWidth) lines += std::exchange(line, "#") + '\n';
      line += ' ' + word;
    }
    lines += line + '\n';
  }
  return lines;
}

std::string allowed_text(const ConfigField& field) {
  if (!field.choices.empty()) return joined(field.choices, " | ");
  const std::size_t type = field.get(RunConfig{}).index();
  if (type == 0) return "true | false";
  if (type == 3) return "text";
  return to_string(ConfigValue(field.min)) + " to " + to_string(ConfigValue(field.max)) +
         (field.unit.empty() ? "" : " " + field.unit);
}

std::string toml_value(const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return toml_text(*text);
  std::string written = to_string(value);
  if (std::holds_alternative<double>(value) && written.find_first_of(".e") == std::string::npos) written += ".0";
  return written;
}

std::string read_value(const toml::node& node, const ConfigField& field, ConfigValue& value) {
  if (node.is_array()) return "is an array; allowed: one value";
  if (node.is_table()) return "is a section; allowed: one value";
  if (const auto* flag = node.as_boolean())
    value = **flag;
  else if (const auto* text = node.as_string())
    value = **text;
  else if (const auto* real = node.as_floating_point())
    value = **real;
  else if (const auto* integer = node.as_integer(); !integer)
    return "is a date or time; allowed: a number, text, true or false";
  else if (std::holds_alternative<double>(field.get(RunConfig{})))
    value = static_cast<double>(**integer);
  else
    value = **integer;
  return check_field(field, value);
}

std::string nearest_key(std::string_view unknown_key) {
  const std::string_view given_name = unknown_key.substr(unknown_key.rfind('.') + 1);
  const ConfigField* best = nullptr;
  std::size_t best_distance = 0;
  for (const ConfigField& field : config_fields()) {
    // A correct key in the wrong section is more similar than any misspelling.
    const std::size_t distance = 8 * edit_distance(given_name, field.name()) + edit_distance(unknown_key, field.key);
    if (best == nullptr || distance < best_distance) {
      best = &field;
      best_distance = distance;
    }
  }
  return best->key;
}

std::string to_string(const ConfigValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return shortest(std::get<double>(value));
}

ConfigValue parse_value(const ConfigField& field, std::string_view text) {
  ConfigValue value = std::string(text);
  const auto read = [&](auto number) {
    if (read_number(text, number)) value = number;
  };
  const std::size_t type = field.get(RunConfig{}).index();
  if (type == 0 && (text == "true" || text == "false")) value = text == "true";
  if (type == 1) read(std::int64_t{});
  if (type == 2) read(double{});
  if (const std::string problem = check_field(field, value); !problem.empty()) throw std::invalid_argument(problem);
  return value;
}

ParsedConfig parse_config(std::string_view text, std::string_view file_name, const RunConfig& base) {
  Reader reader{base, {std::string(file_name)}};
  read_toml(text, reader.problems, [&reader](TomlSection& root) {
    reader.read_preset(root);
    reader.read(root.unread_table(), "");
    reader.problems.sort();
    reader.check_rules();
    if (reader.problems.found.empty()) reader.read_comparisons(root);
  });
  return {std::move(reader.config), std::move(reader.twins), std::move(reader.problems.found)};
}

RunConfig read_config(TomlSection& section) {
  Reader reader{{}, {section.problems().file}};
  reader.in_list = true;
  reader.read(section.unread_table(), "");
  reader.check_rules();
  std::ranges::move(reader.problems.found, std::back_inserter(section.problems().found));
  return std::move(reader.config);
}

std::string read_toml_file(const std::string& path, std::size_t most_bytes, const char* what, std::string& text) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "no such file";
  try {
    text = read_file(path, most_bytes, what);
    return {};
  } catch (const std::runtime_error& error) {
    return std::string(error.what()).substr(path.size() + 2);
  }
}

ParsedConfig load_config(const std::string& path, const RunConfig& base) {
  std::error_code error;
  std::string text;
  const std::string reason = std::filesystem::is_directory(path, error)
                                 ? "is a folder, expected a TOML file"
                                 : read_toml_file(path, kMaxConfigBytes, "run config", text);
  return reason.empty() ? parse_config(text, path, base) : ParsedConfig{{}, {}, {{path, 0, "", reason}}};
}

namespace {

// Returns the name of the asset; empty if there is no such preset.
std::string preset_file(std::string_view preset) {
  for (const char* folder : {"presets/", "presets/compare/"})
    if (std::string name = folder + std::string(preset) + ".toml"; !asset(name).empty()) return name;
  return {};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names = {"nano", "nano-facts", "long-context", "small", "small-fp32", "mini-v3", "16B-like"};
  for (std::string& name : model_preset_names()) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> comparison_preset_names() {
  return {"precisions", "convergence-check", "mxfp4-everywhere", "mini-v3-formats", "fp4-study"};
}

std::vector<RunConfig> all_runs(const ParsedConfig& parsed) {
  std::vector<RunConfig> runs = {parsed.config};
  runs.insert(runs.end(), parsed.twins.begin(), parsed.twins.end());
  return runs;
}

std::string preset_about(std::string_view name) {
  return leading_comment(asset(preset_file(name)));
}

// Compares names, seeds and widths alone, so that runs with live changes are still recognised. A candidate whose
// formats the user has changed before the start has another name, so that it is not.
ParsedConfig load_preset(std::string_view name) {
  if (const std::string file = preset_file(name); !file.empty()) return parse_config(asset(file), file);
  const std::string allowed = joined(preset_names(), ", ") + ", " + joined(comparison_preset_names(), ", ");
  return {{}, {}, {{"", 0, kPresetKey, "is \"" + std::string(name) + "\"; allowed: " + allowed}}};
}

std::string to_toml(const RunConfig& config) {
  std::string out = "# MoEScope run config. Keys that are left out keep the program's defaults.\n";
  std::string_view section;
  for (const ConfigField& field : config_fields()) {
    if (field.derived) continue;
    if (field.section != section) out += "\n[" + std::string(field.section) + "]\n";
    section = field.section;
    out += '\n';
    out += toml_comment(field.help) + "# Allowed: " + allowed_text(field) +
           (field.live ? "; can be changed while it trains.\n" : ".\n");
    out += std::string(field.name()) + " = " + toml_value(field.get(config)) + '\n';
  }
  return out;
}

std::vector<std::string> model_preset_names() {
  return {"mini-OLMoE",       "mini-DeepSeek-V3", "mini-gpt-oss", "mini-Qwen3-Next", "mini-Nemotron-3-Super",
          "mini-DeepSeek-V4", "mini-Kimi-K3"};
}

namespace {

constexpr std::string_view kFolder = "recipes/", kEnding = ".toml";

std::string file_of(std::string_view name) {
  return std::string(kFolder) + std::string(name) + std::string(kEnding);
}

// Parses the recipes once, because the form looks up the name of its settings after every edit.
const PrecisionConfig& recipe_of(std::string_view name) {
  static const auto all = [] {
    std::map<std::string_view, PrecisionConfig> recipes;
    for (const std::string_view recipe_name : published_recipe_names()) {
      const ParsedConfig parsed = parse_config(asset(file_of(recipe_name)), file_of(recipe_name));
      assert(parsed.problems.empty());
      recipes[recipe_name] = parsed.config.precision;
    }
    return recipes;
  }();
  return all.at(name);
}

}  // namespace

std::vector<std::string_view> published_recipe_names() {
  std::vector<std::string_view> names;
  for (const Asset& file : assets()) {
    if (!file.name.starts_with(kFolder) || !file.name.ends_with(kEnding)) continue;
    names.push_back(file.name.substr(kFolder.size(), file.name.size() - kFolder.size() - kEnding.size()));
  }
  std::ranges::sort(names);
  return names;
}

std::string published_recipe_about(std::string_view name) {
  return leading_comment(asset(file_of(name)));
}

void apply_published_recipe(std::string_view name, PrecisionConfig& precision) {
  const TokenPayload payload = precision.payload;
  precision = recipe_of(name);
  precision.payload = payload;
}

std::string published_recipe_of(const PrecisionConfig& precision) {
  for (const std::string_view name : published_recipe_names()) {
    PrecisionConfig published = precision;
    apply_published_recipe(name, published);
    if (published == precision) return std::string(name);
  }
  return {};
}

}  // namespace moescope
