#include "core/telemetry/recording/run_settings.h"

#include <cstdlib>

namespace moescope {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\"");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\"") - first + 1);
}

// As to_toml() writes it: [section], then "key = value  # comment" lines.
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
    if (here != section || equals == std::string_view::npos || trimmed(line.substr(0, equals)) != name) continue;
    const std::string_view value = line.substr(equals + 1);
    return std::string(trimmed(value.substr(0, value.find('#'))));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> setting_at(const History& history, std::string_view key, std::int64_t step) {
  const auto dot = key.find('.');
  const std::string_view section = dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? key : key.substr(dot + 1);
  std::optional<std::string> value = value_in(history.info().config_toml, section, name);
  for (const Marker& marker : history.markers()) {
    if (marker.step > step || marker.kind != "change" || marker.run != history.info().run) continue;
    const std::string_view text = marker.text;
    const auto arrow = text.find(" -> ");
    if (!text.starts_with(key) || text.size() <= key.size() || text[key.size()] != ' ') continue;
    if (arrow != std::string_view::npos) value = std::string(trimmed(text.substr(arrow + 4)));
  }
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
