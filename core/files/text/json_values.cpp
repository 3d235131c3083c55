#include "core/files/text/json_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr std::size_t kNotCounted = 0xFFFFFF;  // size() of longer lists

bool is_whole(std::optional<double> number, double lowest, double highest) {
  return number && *number >= lowest && *number <= highest && *number == std::floor(*number);
}

// Returns the value as error messages name it.
std::string shown(JsonValue value) {
  std::string text = simdjson::minify(value);
  if (text.size() > 40) text.resize(40);
  return text;
}

}  // namespace

std::optional<double> to_number(JsonValue value) {
  double number = 0;
  if (value.get(number) == simdjson::SUCCESS) return number;
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return std::nullopt;
  if (!read_number(text, number)) return std::nullopt;
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
}

JsonFields::JsonFields(simdjson::dom::object object) {
  fields_.reserve(object.size());
  for (const auto& [key, value] : object) fields_.push_back({key, value});
  order();
}

void JsonFields::order() {
  // Keys lie in memory in the order of the line, so that comparing addresses keeps the order of equal keys.
  std::sort(fields_.begin(), fields_.end(), [](const Field& a, const Field& b) {
    const int order = a.key.compare(b.key);
    return order != 0 ? order < 0 : a.key.data() < b.key.data();
  });
  const auto same_as_next = [](const Field& a, const Field& b) { return a.key == b.key; };
  // Runs from the back, so that the last of equal keys stays.
  fields_.erase(fields_.begin(), std::unique(fields_.rbegin(), fields_.rend(), same_as_next).base());
}

const JsonValue* JsonFields::find(std::string_view key) const& {
  // Few keys are compared faster than they are ordered, since most of them differ in length.
  const auto found = fields_.size() <= 8 ? std::ranges::find(fields_, key, &Field::key)
                                         : std::ranges::lower_bound(fields_, key, {}, &Field::key);
  return found != fields_.end() && found->key == key ? &found->value : nullptr;
}

JsonFields fields_of(JsonValue value, const char* key, const char* reason) {
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) throw Unreadable(std::string(key) + ": " + reason);
  return JsonFields(object);
}

const JsonValue* member(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const JsonValue* found = fields.find(key);
    if (found && !found->is_null()) return found;
  }
  return nullptr;
}

JsonValue required(const JsonFields& fields, const char* key) {
  const JsonValue* found = member(fields, {key});
  if (!found) throw Unreadable(std::string("no ") + key);
  return *found;
}

float to_float(JsonValue value, const char* key) {
  if (value.is_null()) return kNoValue;
  if (const auto number = to_number(value)) return static_cast<float>(*number);
  std::string_view text;
  const bool has_comma = value.get(text) == simdjson::SUCCESS && text.find(',') != std::string_view::npos;
  throw Unreadable(std::string(key) + ": " + shown(value) + " is not a number" +
                   (has_comma ? "; is its comma a decimal point? Write 3.5, not 3,5" : ""));
}

std::int64_t to_count(JsonValue value, const char* key, double limit) {
  const auto number = to_number(value);
  if (!is_whole(number, 0, limit)) {
    const bool too_large = number && *number > limit;
    throw Unreadable(std::string(key) + ": " + shown(value) +
                     (too_large ? fmt::format(" is more than {}", static_cast<std::int64_t>(limit))
                                : std::string(" is not a whole number from 0 on")));
  }
  return static_cast<std::int64_t>(*number);
}

int to_index(JsonValue value, const char* key, int lowest, int highest) {
  const auto number = to_number(value);
  if (!is_whole(number, lowest, highest))
    throw Unreadable(fmt::format("{}: not a whole number from {} to {}", key, lowest, highest));
  return static_cast<int>(*number);
}

std::string to_text(JsonValue value, const char* key) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) throw Unreadable(std::string(key) + ": not a text");
  return std::string(text);
}

JsonList list_of(JsonValue value, const char* key, std::size_t size, const char* unit) {
  JsonList list;
  if (value.get(list) != simdjson::SUCCESS) throw Unreadable(std::string(key) + ": not a list");
  if (list.size() == kNotCounted) throw Unreadable(fmt::format("{}: more than {} entries", key, kNotCounted - 1));
  if (size && list.size() != size) throw Unreadable(fmt::format("{}: {} {}, not {}", key, list.size(), unit, size));
  return list;
}

std::vector<std::uint32_t> to_counts(JsonValue list, const char* key, std::size_t size, const char* unit) {
  const JsonList entries = list_of(list, key, size, unit);
  std::vector<std::uint32_t> counts(entries.size());
  std::uint32_t* to = counts.data();
  for (const JsonValue value : entries) {
    std::int64_t count = 0;  // type of nearly all counts
    const bool fits = value.get(count) == simdjson::SUCCESS && count == static_cast<std::uint32_t>(count);
    *to++ = static_cast<std::uint32_t>(fits ? count : to_count(value, key, 4294967295.0));
  }
  return counts;
}

std::vector<float> to_floats(JsonValue list, const char* key, std::size_t size, const char* unit) {
  std::vector<float> values;
  values.reserve(size);
  for (const JsonValue value : list_of(list, key, size, unit)) values.push_back(to_float(value, key));
  return values;
}

}  // namespace moescope
