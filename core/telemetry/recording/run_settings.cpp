#include "core/telemetry/recording/run_settings.h"

#include <cstdlib>

#include "core/io/toml_text.h"
#include "core/io/trimmed.h"

namespace moescope {

namespace {

// Of "key = value  # comment": a text as it is meant, any other value as it is written.
std::optional<std::string> value_of(std::string_view line) {
  try {
    const toml::table table = parse_toml(line, "");
    if (table.empty()) return std::nullopt;
    if (const auto* text = table.begin()->second.as_string()) return text->get();
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
  const std::string_view value = line.substr(line.find('=') + 1);
  return std::string(trimmed(value.substr(0, value.find('#'))));
}

// As to_toml() writes it: [section], then a key a line. Only the line that is wanted is parsed.
std::optional<std::string> value_in(std::string_view toml, std::string_view section, std::string_view name) {
  std::string_view here;
  while (!toml.empty()) {
    const auto end = toml.find('\n');
    const std::string_view line = trimmed(toml.substr(0, end));
    toml.remove_prefix(end == std::string_view::npos ? toml.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      here = line.substr(1, line.find(']') - 1);
      continue;
    }
    const auto equals = line.find('=');
    if (here == section && equals != std::string_view::npos && trimmed(line.substr(0, equals)) == name)
      return value_of(line);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> setting_at(const History& history, std::string_view key, std::int64_t step) {
  const auto dot = key.find('.');
  const std::string_view section = dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? key : key.substr(dot + 1);
  std::optional<std::string> value = value_in(history.info().config_toml, section, name);
  for (const Marker& marker : history.markers())
    if (marker.key == key && marker.step <= step && marker.run == history.info().run) value = marker.value;
  return value;
}

std::optional<double> number_at(const History& history, std::string_view key, std::int64_t step) {
  const auto text = setting_at(history, key, step);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (end == text->c_str()) return std::nullopt;
  return value;
}

}  // namespace moescope
