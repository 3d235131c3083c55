// A value of an untrusted JSON file with its place, so that errors name the key: "model.merges[3]: ...".
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/text/json_values.h"

namespace moescope {

// Values and texts are valid as long as the parser that made the value. All functions throw Unreadable "KEY: WHY".
class JsonPlace {
 public:
  JsonPlace(JsonValue value, std::string key) : value_(value), key_(std::move(key)) {}

  JsonPlace at(const char* key) const;                   // field of the object; throws if it is missing
  std::optional<JsonPlace> find(const char* key) const;  // nullopt if it is missing or null
  std::vector<JsonPlace> items(
      std::size_t max_items) const;  // items of the list; throws if it has more than `max_items`
  simdjson::dom::object object() const { return get<simdjson::dom::object>("is not an object"); }
  simdjson::dom::array list() const { return get<simdjson::dom::array>("is not a list"); }

  std::string_view text() const { return get<std::string_view>("is not a text"); }
  bool flag() const { return get<bool>("is neither true nor false"); }
  bool flag(const char* key, bool otherwise) const;  // value of the object's field; `otherwise` if it is missing
  std::int64_t whole(std::int64_t lowest, std::int64_t highest) const;
  double number() const { return get<double>("is not a number"); }
  // Returns the index in `names` of the text; throws an error with all names if it is none of them.
  std::size_t one_of(const std::vector<const char*>& names) const;

  [[noreturn]] void fail(const std::string& reason) const;
  const std::string& key() const { return key_; }
  JsonValue value() const { return value_; }

 private:
  template <class T>
  T get(const char* why_not) const {
    T found{};
    if (value_.get(found)) fail(why_not);
    return found;
  }
  JsonValue value_;
  std::string key_;
};

// A reader for each kind of an object, by the name of the kind in its field "type".
template <class Value>
using Kinds = std::initializer_list<std::pair<const char*, Value (*)(const JsonPlace&)>>;
// Throws an error with all names if the object is of none of the kinds.
template <class Value>
Value read_kind(const JsonPlace& place, Kinds<Value> kinds) {
  std::vector<const char*> names;
  for (const auto& [name, read] : kinds) names.push_back(name);
  return kinds.begin()[place.at("type").one_of(names)].second(place);
}

// Reads a list of steps. The result calls them one after the other.
template <class Step>
Step read_steps(const JsonPlace& list, Step (*read)(const JsonPlace&)) {
  constexpr std::size_t kMaxSteps = 100;
  std::vector<Step> steps;
  for (const JsonPlace& step : list.items(kMaxSteps)) steps.push_back(read(step));
  return [steps](auto&&... arguments) {
    for (const Step& step : steps) step(arguments...);
  };
}

// Returns a text of the file in the form for messages: in quotes, printable, truncated.
std::string in_quotes(std::string_view text);

}  // namespace moescope
