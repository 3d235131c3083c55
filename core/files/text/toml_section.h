// Reads the tables of a TOML file by key, and collects every problem with its file, line, key and what is allowed.
#pragma once

#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/unreadable.h"

namespace moescope {

// Throws toml::parse_error with the line and the reason, also if a key has more than 16 parts or values are nested more
// than 256 deep.
toml::table parse_toml(std::string_view text, std::string_view file_name);

// Returns the comment at the beginning of a file, without the comment signs.
std::string leading_comment(std::string_view text);

int line_of(const toml::node& node);

// The problems found in a file.
struct TomlProblems {
  std::string file;
  std::vector<FileProblem> found = {};
  void add(int line, const std::string& key, const std::string& message) {
    found.push_back({file, line, key, message});
  }
  void sort() { std::ranges::stable_sort(found, {}, &FileProblem::line); }  // by line
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
  std::string path(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }
  void problem(std::string_view key, const std::string& message) { problems_.add(line(key), path(key), message); }
  void problem(const std::string& message) { problems_.add(line_of(table_), path_, message); }  // of the table itself
  TomlProblems& problems() { return problems_; }

  // A problem if the table does not have the key.
  void require(std::string_view key) {
    if (!has(key)) problem(key, "is missing");
  }
  std::optional<std::string> optional_text(std::string_view key);
  std::string text(std::string_view key) { return optional_text(key).value_or(std::string()); }
  std::string required_text(std::string_view key);
  bool flag(std::string_view key);  // false if it is not given
  double number(std::string_view key, double otherwise, double min, double max);
  std::int64_t integer(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max);
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t min, std::int64_t max) {
    return node(key) ? std::optional(integer(key, 0, min, max)) : std::nullopt;
  }
  std::vector<std::string> texts(std::string_view key);
  std::vector<double> numbers(std::string_view key);  // may be NaN
  // Returns the index of one of `choices`.
  int choice(std::string_view key, std::initializer_list<std::string_view> choices, int otherwise);
  const toml::table* table(std::string_view key);
  // Calls `take` with the table [key]. Returns false if there is none.
  bool inside(std::string_view key, const std::function<void(TomlSection&)>& take);
  // Calls `take` with each table of [[key]], whose path is "key 2".
  void for_each_section(std::string_view key, const std::function<void(TomlSection&)>& take);
  // Returns the whole table for a caller that reads the other keys itself and reports the unknown ones.
  const toml::table& unread_table();

 private:
  const toml::table& table_;
  std::string path_;
  TomlProblems& problems_;
  std::set<std::string, std::less<>> used_;
  bool reports_unknown_ = true;
};

// Calls `read` with the whole text as a section, if it is TOML.
void read_toml(std::string_view text, TomlProblems& problems, const std::function<void(TomlSection&)>& read);
// Throws std::runtime_error with the first problem by line.
void read_valid_toml(std::string_view text, std::string_view file, const std::function<void(TomlSection&)>& read);

}  // namespace moescope
