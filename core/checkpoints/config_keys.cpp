#include "core/checkpoints/config_keys.h"

#include <algorithm>
#include <cmath>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownValueLength = 60;  // longest value in a message, characters

std::string shown(const Json& value) {
  const std::string text = printable(value.dump(-1, ' ', true));
  return text.size() <= kShownValueLength ? text : text.substr(0, kShownValueLength) + "...";
}

std::string number_text(double value) {
  const std::string text = Json(value).dump();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

bool has_no_effect(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();
}

}  // namespace

ConfigKeys::ConfigKeys(const Json& json, std::string path, std::string prefix)
    : json_(json), path_(std::move(path)), prefix_(std::move(prefix)) {}

void ConfigKeys::fail(std::string_view key, const std::string& what) const {
  refuse(path_, "'" + prefix_ + printable(std::string(key)) + "' " + what);
}

const Json* ConfigKeys::find(std::initializer_list<const char*> keys) {
  const Json* found = nullptr;
  const char* name = nullptr;
  for (const char* key : keys) {
    read_.insert(key);
    const auto at = json_.find(key);
    if (at == json_.end() || at->is_null()) continue;
    if (found && *found != *at)
      fail(key, "is " + shown(*at) + ", but '" + prefix_ + name + "', which has the same meaning, is " + shown(*found));
    if (!found) name = key;
    found = &*at;
  }
  return found;
}

bool ConfigKeys::is_null(const char* key) const {
  const auto at = json_.find(key);
  return at != json_.end() && at->is_null();
}

int ConfigKeys::count(std::initializer_list<const char*> keys, int lowest, int highest, std::optional<int> missing) {
  const double value =
      number(keys, lowest, highest, missing ? std::optional<double>(*missing) : std::optional<double>());
  if (value != std::floor(value)) fail(*keys.begin(), "is " + number_text(value) + "; allowed: whole numbers");
  return static_cast<int>(value);
}

double ConfigKeys::number(std::initializer_list<const char*> keys, double lowest, double highest,
                          std::optional<double> missing) {
  const Json* value = find(keys);
  const char* key = *keys.begin();
  for (const char* one : keys)
    if (value && json_.contains(one) && &json_.at(one) == value) key = one;
  if (!value) {
    if (!missing) fail(key, "is missing");
    for (const char* one : keys)
      if (is_null(one) && !nullable_.contains(one)) fail(one, "is null; allowed: a number, or no such key");
    return *missing;
  }
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= lowest && number <= highest))
    fail(key, "is " + shown(*value) + "; allowed: " + number_text(lowest) + " to " + number_text(highest));
  return number;
}

std::optional<double> ConfigKeys::number_if_there(const char* key, double lowest, double highest) {
  if (!find({key})) return std::nullopt;
  return number({key}, lowest, highest);
}

std::optional<bool> ConfigKeys::flag(const char* key) {
  const Json* value = find({key});
  if (!value) return is_null(key) ? std::optional(false) : std::nullopt;
  if (!value->is_boolean()) fail(key, "is " + shown(*value) + "; allowed: true, false");
  return value->get<bool>();
}

std::string ConfigKeys::text(std::initializer_list<const char*> keys, const std::string& missing) {
  const Json* value = find(keys);
  if (!value) return missing;
  if (!value->is_string()) fail(*keys.begin(), "is " + shown(*value) + "; allowed: a text");
  return value->get<std::string>();
}

std::string ConfigKeys::choice(std::initializer_list<const char*> keys, std::initializer_list<const char*> allowed,
                               const std::string& missing) {
  const std::string chosen = text(keys, missing);
  if (std::ranges::find(allowed, chosen) != allowed.end()) return chosen;
  fail(*keys.begin(), "is '" + printable(chosen) + "', which is not known; allowed: " + joined(allowed, ", "));
}

void ConfigKeys::require_all_read() const {
  for (const auto& [key, value] : json_.items())
    if (!read_.contains(key) && !key.starts_with('_') && !has_no_effect(value))
      fail(key, "is " + shown(value) + ", and the meaning of this key is not known");
}

}  // namespace moescope
