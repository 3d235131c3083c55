#include "core/files/text/toml_text.h"

#include <algorithm>
#include <memory>
#include <string>

namespace moescope {

namespace {

constexpr int kMaxKeyParts = 16;

// Returns the position behind the string that begins at `at`, or the end of the text.
std::size_t after_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool lines = text.substr(at, 3) == std::string(3, quote);
  const std::string end(lines ? 3 : 1, quote);
  for (at += end.size(); at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (!lines && text[at] == '\n')
      return at;
    else if (text.substr(at, end.size()) == end)  // two more quotes may belong to the string
      return lines ? std::min({text.find_first_not_of(quote, at), at + 5, text.size()}) : at + 1;
  }
  return text.size();
}

// Returns the position at which a dotted key exceeds kMostKeyParts parts; npos if no key does. Each part is a table in
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

}  // namespace moescope
