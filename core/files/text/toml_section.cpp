#include "core/files/text/toml_section.h"

#include <fmt/core.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/numerics/index.h"

namespace moescope {
namespace {

constexpr int kMaxKeyParts = 16;

// Returns the position behind the string that begins at `at`, or the end of the text.
std::size_t after_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool lines = text.substr(at, 3) == std::string(3, quote);
  const std::string end(lines ? 3 : 1, quote);
  for (at += end.size(); at < text.size(); ++at)
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (!lines && text[at] == '\n')
      return at;
    else if (text.substr(at, end.size()) == end)  // two more quotes may belong to the string
      return lines ? std::min({text.find_first_not_of(quote, at), at + 5, text.size()}) : at + 1;
  return text.size();
}

// Returns the position at which a dotted key exceeds kMaxKeyParts parts; npos if no key does. Each part is a table in
// a table, which the parser's own limit on nesting does not count.
std::size_t long_key_at(std::string_view text) {
  int dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = after_string(text, at);
      continue;
    }
    if (c == '#') at = std::min(text.find('\n', at), text.size() - 1);
    if (c == '.' && ++dots == kMaxKeyParts) return at;
    if (std::string_view("#=,\n[]{}").find(c) != std::string_view::npos) dots = 0;
    ++at;
  }
  return std::string_view::npos;
}

// Returns the values of a list; empty, with a problem, if one is not valid.
template <class Value>
std::vector<Value> values_of(TomlSection& section, std::string_view key, bool (*is_valid)(const toml::node&),
                             const char* message) {
  std::vector<Value> values;
  const toml::node* found = section.node(key);
  if (!found) return values;
  const toml::array* array = found->as_array();
  if (!array || !std::all_of(array->begin(), array->end(), is_valid)) {
    section.problem(key, message);
    return values;
  }
  for (const toml::node& entry : *array) values.push_back(*entry.value<Value>());
  return values;
}

}  // namespace

toml::table parse_toml(std::string_view text, std::string_view file_name) {
  if (const std::size_t at = long_key_at(text); at != std::string_view::npos) {
    const std::string_view before = text.substr(0, at);
    toml::source_region region;
    region.begin.line = static_cast<toml::source_index>(1 + std::count(before.begin(), before.end(), '\n'));
    region.begin.column = static_cast<toml::source_index>(at - (before.rfind('\n') + 1) + 1);
    region.end = region.begin;
    region.path = std::make_shared<const std::string>(file_name);
    throw toml::parse_error("a key of more than 16 parts", region);
  }
  try {
    return toml::parse(text, file_name);
  } catch (const toml::parse_error& error) {
    if (error.description().find("TOML_MAX_NESTED_VALUES") == std::string_view::npos) throw;
    throw toml::parse_error("nested more than 256 deep", error.source());
  }
}

std::string leading_comment(std::string_view text) {
  std::string comment;
  while (text.starts_with('#')) {
    const std::string_view line = text.substr(0, text.find('\n'));
    comment += std::string(line.substr(line.starts_with("# ") ? 2 : 1)) + '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return comment;
}

std::string FileProblem::text() const {
  std::string place = file;
  if (line > 0) place += fmt::format("{}{}", place.empty() ? "line " : ":", line);
  if (!place.empty()) place += ": ";
  if (!key.empty()) place += key + ": ";
  return place + message;
}

int line_of(const toml::node& node) {
  return node.source().begin.line;
}

void read_toml(std::string_view text, TomlProblems& problems, const std::function<void(TomlSection&)>& read) {
  try {
    const toml::table table = parse_toml(text, problems.file);
    TomlSection root(table, "", problems);
    read(root);
  } catch (const toml::parse_error& error) {
    if (const std::string encoding = text_problem(text); !encoding.empty())
      problems.add(0, "", encoding);
    else
      problems.add(error.source().begin.line, "", "not TOML: " + std::string(error.description()));
  }
}

void read_valid_toml(std::string_view text, std::string_view file, const std::function<void(TomlSection&)>& read) {
  TomlProblems problems{std::string(file)};
  read_toml(text, problems, read);
  problems.sort();
  if (!problems.found.empty()) throw std::runtime_error(problems.found.front().text());
}

TomlSection::TomlSection(const toml::table& table, std::string path, TomlProblems& problems)
    : table_(table), path_(std::move(path)), problems_(problems) {}

TomlSection::~TomlSection() {
  if (!reports_unknown_) return;
  for (const auto& [key, node] : table_)
    if (!used_.contains(key.str()))
      problems_.add(key.source().begin.line, path(key.str()), "no such key; allowed: " + joined(used_, ", "));
}

const toml::node* TomlSection::node(std::string_view key) {
  used_.insert(std::string(key));
  return table_.get(key);
}

const toml::table& TomlSection::unread_table() {
  reports_unknown_ = false;
  return table_;
}

std::optional<std::string> TomlSection::optional_text(std::string_view key) {
  const toml::node* found = node(key);
  if (!found) return std::nullopt;
  if (const auto* value = found->as_string()) return **value;
  problem(key, "must be text in quotes");
  return std::nullopt;
}

std::string TomlSection::required_text(std::string_view key) {
  require(key);
  return text(key);
}

bool TomlSection::flag(std::string_view key) {
  const toml::node* found = node(key);
  if (found && !found->is_boolean()) problem(key, "must be true or false");
  return found && found->value_or(false);
}

double TomlSection::number(std::string_view key, double otherwise, double min, double max) {
  const toml::node* found = node(key);
  if (!found) return otherwise;
  const auto value = found->value<double>();
  if (value && found->is_number() && *value >= min && *value <= max) return *value;
  problem(key, "must be a number from " + shortest(min) + " to " + shortest(max));
  return otherwise;
}

std::int64_t TomlSection::integer(std::string_view key, std::int64_t otherwise, std::int64_t min, std::int64_t max) {
  const toml::node* found = node(key);
  if (!found) return otherwise;
  if (const auto* value = found->as_integer(); value && **value >= min && **value <= max) return **value;
  problem(key, fmt::format("must be a whole number from {} to {}", min, max));
  return otherwise;
}

std::vector<std::string> TomlSection::texts(std::string_view key) {
  constexpr auto is_text = [](const toml::node& entry) { return entry.is_string(); };
  return values_of<std::string>(*this, key, is_text, "must be a list of texts: [\"...\", \"...\"]");
}

std::vector<double> TomlSection::numbers(std::string_view key) {
  constexpr auto is_number = [](const toml::node& entry) { return entry.is_number(); };
  return values_of<double>(*this, key, is_number, "must be a list of numbers");
}

int TomlSection::choice(std::string_view key, std::initializer_list<std::string_view> choices, int otherwise) {
  if (!node(key)) return otherwise;
  const std::string value = text(key);
  const auto* found = std::ranges::find(choices, value);
  if (found != choices.end()) return to_int(found - choices.begin());
  problem(key, "is \"" + value + "\"; allowed: " + joined(choices, ", "));
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

void TomlSection::for_each_section(std::string_view key, const std::function<void(TomlSection&)>& take) {
  const toml::node* found = node(key);
  if (!found) return;
  const toml::array* array = found->as_array();
  if (!array || !array->is_array_of_tables()) return problem(key, "must be written as [[" + path(key) + "]]");
  int n = 0;
  for (const toml::node& entry : *array) {
    TomlSection section(*entry.as_table(), fmt::format("{} {}", path(key), ++n), problems_);
    take(section);
  }
}

}  // namespace moescope
