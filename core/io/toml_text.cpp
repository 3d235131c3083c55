#include "core/io/toml_text.h"

#include <algorithm>
#include <memory>
#include <string>

#include "core/io/nesting.h"

namespace moescope {

toml::table parse_toml(std::string_view text, std::string_view file_name) {
  if (const std::size_t at = toml_too_deep_at(text); at != std::string_view::npos) {
    const std::string_view before = text.substr(0, at);
    toml::source_region where;
    where.begin.line = static_cast<toml::source_index>(1 + std::count(before.begin(), before.end(), '\n'));
    where.begin.column = static_cast<toml::source_index>(at - (before.rfind('\n') + 1) + 1);
    where.end = where.begin;
    where.path = std::make_shared<const std::string>(file_name);
    throw toml::parse_error(too_deep_text().c_str(), where);
  }
  return toml::parse(text, file_name);
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
