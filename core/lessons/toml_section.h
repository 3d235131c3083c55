// Reads the tables of lessons and claims by key, and collects every problem with its line.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config_check.h"
#include "core/io/toml_text.h"
#include "core/lessons/lesson.h"

namespace moescope {

int line_of(const toml::node& node);

// The problems found in a file.
struct TomlProblems {
  std::string file;
  std::vector<ConfigProblem> found;
  void add(int line, const std::string& key, const std::string& message);
  void sort();  // by line
};

// One table. Values are read by key; the destructor reports unknown keys.
class TomlSection {
 public:
  TomlSection(const toml::table& table, std::string path, TomlProblems& problems);
  ~TomlSection();
  TomlSection(const TomlSection&) = delete;
  TomlSection& operator=(const TomlSection&) = delete;

  const toml::node* node(std::string_view key);
  bool has(std::string_view key) const { return table_.contains(key); }
  int line(std::string_view key) const { return line_of(has(key) ? *table_.get(key) : table_); }
  std::string path(std::string_view key) const;
  void problem(std::string_view key, const std::string& message) { problems_.add(line(key), path(key), message); }
  void problem(const std::string& message) { problems_.add(line_of(table_), path_, message); }  // of the table itself
  TomlProblems& problems() { return problems_; }

  std::string text(std::string_view key);
  std::string required_text(std::string_view key);
  double number(std::string_view key, double otherwise, double min, double max);
  std::int64_t integer(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max);
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::vector<std::string> texts(std::string_view key);
  // Returns the index of one of `choices`.
  int choice(std::string_view key, std::initializer_list<std::string_view> choices, int otherwise);
  const toml::table* table(std::string_view key);
  // Calls `take` with the table [key]. Returns false if there is none.
  bool inside(std::string_view key, const std::function<void(TomlSection&)>& take);
  // Calls `take` with each table of [[key]], whose path is "key 2".
  void each(std::string_view key, const std::function<void(TomlSection&)>& take);

 private:
  const toml::table& table_;
  std::string path_;
  TomlProblems& problems_;
  std::set<std::string, std::less<>> used_;
};

// Reads a table of keys of the run config, dotted or nested: { router.top_k = 4 } or { "router.top_k" = 4 }. `live`:
// settings that cannot change while a run trains are problems.
std::vector<LessonSetting> settings_of(TomlSection& section, bool live, std::string_view table = "set");

// Returns the sorted names of the built-in files whose names begin with `folder`.
std::vector<std::string_view> assets_in(std::string_view folder);
// Returns "bias-thermostat" for "lessons/02-bias-thermostat.toml".
std::string name_without_number(std::string_view file);

// Returns the result for a file that could not be read: `why` is its only problem.
template <class Parsed>
Parsed unread(std::string_view file, const std::string& why, int line = 0) {
  return {{}, {{std::string(file), line, "", why}}};
}

// Reads the keys preset, name and set, and a [[...run]] for every run except A. `seed` as in parse_lesson().
std::vector<RunConfig> read_runs(TomlSection& section, std::optional<std::int64_t> seed);

}  // namespace moescope
