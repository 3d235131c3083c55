// A value of a JSON file of unknown origin and where it stands, so that errors name the key: "model.merges[3]: ...".
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/json_values.h"

namespace moescope {

// What is read holds as long as the parser that made the value. Everything throws Unreadable "KEY: WHY".
class JsonPlace {
 public:
  JsonPlace(JsonValue value, std::string key) : value_(value), key_(std::move(key)) {}

  JsonPlace at(const char* key) const;                   // of an object; it must be there
  std::optional<JsonPlace> find(const char* key) const;  // nullopt: not there, or null
  std::vector<JsonPlace> items(std::size_t most) const;  // of a list
  simdjson::dom::object object() const;
  simdjson::dom::array list() const;

  std::string_view text() const;
  bool flag() const;
  bool flag(const char* key, bool otherwise) const;  // of the object's field, if it is there
  std::int64_t whole(std::int64_t lowest, std::int64_t highest) const;
  double number() const;
  // Of a text the place in `names`; otherwise fails naming them.
  std::size_t one_of(std::initializer_list<const char*> names) const;

  [[noreturn]] void fail(const std::string& why) const;
  const std::string& key() const { return key_; }
  JsonValue value() const { return value_; }

 private:
  JsonValue value_;
  std::string key_;
};

// As messages show a text of the file: in quotes, printable, cut short.
std::string in_quotes(std::string_view text);

}  // namespace moescope
