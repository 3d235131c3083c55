// Checked numbers, lists and fields of a line of JSON of unknown origin (json_line.h). Errors name the key.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/text/no_value.h"
#include "core/files/unreadable.h"

namespace moescope {

using JsonValue = simdjson::dom::element;
using JsonList = simdjson::dom::array;

// The fields of an object, ordered by key. If a key occurs twice, its last value counts.
class JsonFields {
 public:
  struct Field {
    std::string_view key;
    JsonValue value;
  };
  explicit JsonFields(simdjson::dom::object object);
  explicit JsonFields(std::vector<Field> fields) : fields_(std::move(fields)) { order(); }
  const JsonValue* find(std::string_view key) const&;       // nullptr if absent
  const JsonValue* find(std::string_view key) && = delete;  // the value would be gone with the fields
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  void order();
  std::vector<Field> fields_;
};

// Returns the fields of an object. Throws Unreadable "KEY: WHY" if `value` is not an object.
JsonFields fields_of(JsonValue value, const char* key, const char* reason = "not an object");

// Returns the value of the first of these keys that is present and not null; nullptr if there is none.
const JsonValue* member(const JsonFields& fields, std::initializer_list<const char*> keys);
const JsonValue* member(JsonFields&& fields, std::initializer_list<const char*> keys) = delete;
JsonValue required(const JsonFields& fields, const char* key);  // throws Unreadable "no KEY" if it is absent or null

// Numbers may be quoted: "2.5", "NaN", "-Infinity".
std::optional<double> to_number(JsonValue value);                       // nullopt: it is none
float to_float(JsonValue value, const char* key);                       // kNoValue for null
std::int64_t to_count(JsonValue value, const char* key, double limit);  // 0 to limit
int to_index(JsonValue value, const char* key, int lowest, int highest);
std::string to_text(JsonValue value, const char* key);
JsonList list_of(JsonValue value, const char* key, std::size_t size, const char* unit);  // size 0: any size
std::vector<std::uint32_t> to_counts(JsonValue list, const char* key, std::size_t size, const char* unit = "experts");
std::vector<float> to_floats(JsonValue list, const char* key, std::size_t size, const char* unit = "experts");

}  // namespace moescope
