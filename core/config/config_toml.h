// Configs as TOML files, and presets. The reader reports all problems of a file, with their lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"

namespace moescope {

class TomlSection;

// Largest number of candidates that can be compared with one run. If they cannot all train beside it at the same time,
// they train in groups (core/training/engine/run_groups.h).
inline constexpr std::size_t kMaxCandidates = 16;

struct ParsedConfig {
  RunConfig config;
  std::vector<RunConfig> twins;         // runs that train beside `config`, in lock-step
  std::vector<ConfigProblem> problems;  // syntax, unknown keys (with the most similar known key), ranges, rules
};
// Parses a config. Besides the keys of config_fields() a file may hold
//     preset = "16B-like"                    the settings of a preset in place of the defaults
//     [[compare]]                            a twin: its name and the settings in which it differs
//     name = "mxfp8"
//     precision.experts = "mxfp8_rceil"
// Keys that the file leaves out have the values of `base`.
ParsedConfig parse_config(std::string_view toml, std::string_view file_name, const RunConfig& base = {});
// Reads the settings in a table of a file.
RunConfig read_config(TomlSection& section);
// Reads a config file. If it cannot be read, the result holds a problem that says why.
ParsedConfig load_config(const std::string& path, const RunConfig& base = {});
// Reads a user's TOML file into `text`. Returns why it cannot be read; empty if it was read. `what`: as in read_file().
std::string read_toml_file(const std::string& path, std::size_t most_bytes, const char* what, std::string& text);
// Names of the presets in teaching order: assets/presets/<name>.toml with one run each, and
// assets/presets/compare/<name>.toml with several runs. load_preset() takes either.
std::vector<std::string> preset_names();
std::vector<std::string> comparison_preset_names();
ParsedConfig load_preset(std::string_view name);
// Returns the comment at the top of a preset's file. Comments of comparisons say what to expect and what was measured.
std::string preset_about(std::string_view name);
// Returns the parsed run and its twins.
std::vector<RunConfig> all_runs(const ParsedConfig& parsed);

std::string toml_comment(std::string_view text);  // `text` as lines of a comment
// Returns TOML with every key and with comments from the table's help. parse_config reads it back to an equal config.
std::string to_toml(const RunConfig& config);

// Returns the presets that are small versions of published models, in the order of publication.
std::vector<std::string> model_preset_names();

// Returns the names of precision settings of papers and training frameworks, sorted: assets/recipes/<name>.toml, each
// with a section [precision] and a comment that names the source and what this program cannot reproduce.
std::vector<std::string_view> published_recipe_names();
std::string published_recipe_about(std::string_view name);  // empty if there is no such recipe

// Sets all members of `precision` except the payload, which belongs to the all-to-all. `name` is one of
// published_recipe_names().
void apply_published_recipe(std::string_view name, PrecisionConfig& precision);
// Returns the name of the recipe that has these settings; empty if there is none.
std::string published_recipe_of(const PrecisionConfig& precision);

}  // namespace moescope
