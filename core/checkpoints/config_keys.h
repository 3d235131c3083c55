// Reads and checks the keys of a config.json, and finds keys that were not read.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"

namespace moescope {

class ConfigKeys {
 public:
  using Json = nlohmann::json;

  // `json` must outlive the object. `prefix` is put before keys in messages: "rope_parameters." for an inner object.
  ConfigKeys(const Json& json, std::string path, std::string prefix = {})
      : json_(json), path_(std::move(path)), prefix_(std::move(prefix)) {}

  // Returns the value of the keys, which have one meaning; nullptr if all are absent or null. Throws
  // std::runtime_error with their names if two of them have different values.
  const Json* find(std::initializer_list<const char*> keys) {
    const Json* found = nullptr;
    const char* name = nullptr;
    for (const char* key : keys) {
      read_.insert(key);
      const auto at = json_.find(key);
      if (at == json_.end() || at->is_null()) continue;
      if (found && *found != *at)
        fail(key,
             "is " + shown(*at) + ", but '" + prefix_ + name + "', which has the same meaning, is " + shown(*found));
      if (!found) name = key;
      found = &*at;
    }
    return found;
  }

  // True if the key is present and its value is null.
  bool is_null(const char* key) const {
    const auto at = json_.find(key);
    return at != json_.end() && at->is_null();
  }
  // Afterwards null means the same as an absent key for number() and count().
  void allow_null(std::initializer_list<const char*> keys) {
    for (const char* key : keys) nullable_.insert(key);
  }
  // The functions below return the value of the keys, else `missing` or nullopt. They throw std::runtime_error with the
  // name of the key if it is absent and needs a `missing`, or if its value is null, has another type or is out of
  // range. A flag that is null is false, as in Python.
  int count(std::initializer_list<const char*> keys, int lowest, int highest, std::optional<int> missing = {}) {
    const double value =
        number(keys, lowest, highest, missing ? std::optional<double>(*missing) : std::optional<double>());
    if (value != std::floor(value)) fail(*keys.begin(), "is " + number_text(value) + "; allowed: whole numbers");
    return static_cast<int>(value);
  }

  double number(std::initializer_list<const char*> keys, double lowest, double highest,
                std::optional<double> missing = {}) {
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

  std::optional<double> number_if_there(const char* key, double lowest, double highest) {
    if (!find({key})) return std::nullopt;
    return number({key}, lowest, highest);
  }
  std::optional<bool> flag(const char* key) {
    const Json* value = find({key});
    if (!value) return is_null(key) ? std::optional(false) : std::nullopt;
    if (!value->is_boolean()) fail(key, "is " + shown(*value) + "; allowed: true, false");
    return value->get<bool>();
  }
  std::string text(std::initializer_list<const char*> keys, const std::string& missing) {
    const Json* value = find(keys);
    if (!value) return missing;
    if (!value->is_string()) fail(*keys.begin(), "is " + shown(*value) + "; allowed: a text");
    return value->get<std::string>();
  }
  // Returns one of `allowed`; `missing` if the key is absent.
  std::string choice(std::initializer_list<const char*> keys, std::initializer_list<const char*> allowed,
                     const std::string& missing) {
    const std::string chosen = text(keys, missing);
    if (std::ranges::find(allowed, chosen) != allowed.end()) return chosen;
    fail(*keys.begin(), "is '" + printable(chosen) + "', which is not known; allowed: " + joined(allowed, ", "));
  }
  void ignore_key(std::string_view key) { read_.emplace(key); }
  void ignore_key(std::initializer_list<const char*> keys) {
    for (const char* key : keys) ignore_key(key);
  }

  // Throws if there is a key that was not read and whose value has an effect: it is not null, false, 0 or empty.
  // Ignores keys that begin with "_".
  void require_all_read() const {
    for (const auto& [key, value] : json_.items())
      if (!read_.contains(key) && !key.starts_with('_') && !has_no_effect(value))
        fail(key, "is " + shown(value) + ", and the meaning of this key is not known");
  }
  [[noreturn]] void fail(std::string_view key, const std::string& what) const {
    refuse(path_, "'" + prefix_ + printable(std::string(key)) + "' " + what);
  }
  const std::string& path() const { return path_; }

 private:
  static constexpr std::size_t kShownValueLength = 60;  // longest value in a message, characters

  static std::string shown(const Json& value) {
    const std::string text = printable(value.dump(-1, ' ', true));
    return text.size() <= kShownValueLength ? text : text.substr(0, kShownValueLength) + "...";
  }

  static std::string number_text(double value) {
    const std::string text = Json(value).dump();
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  }

  static bool has_no_effect(const Json& value) {
    if (value.is_null()) return true;
    if (value.is_boolean()) return !value.get<bool>();
    if (value.is_number()) return value.get<double>() == 0;
    if (value.is_string()) return value.get_ref<const std::string&>().empty();
    return value.empty();
  }

  const Json& json_;
  std::string path_, prefix_;
  std::set<std::string, std::less<>> read_, nullable_;
};

}  // namespace moescope
