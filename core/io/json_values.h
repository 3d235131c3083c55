// Numbers and lists from JSON of unknown origin, checked; errors name the key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/no_value.h"

namespace moescope {

// What is wrong with a line; the reader catches it, counts the line and goes on.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses a whole text. Throws BadJson: what is wrong and where, also for nesting deeper than kMaxNesting.
struct BadJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};
nlohmann::json parse_json(std::string_view text);

// Parses one line, an object. NaN, Infinity and -Infinity, which Python writes and JSON does not have, become strings
// of that name.
nlohmann::json parse_json_line(std::string_view line);

// The value of the first of these keys that is present and not null; nullptr: none is.
const nlohmann::json* member(const nlohmann::json& json, std::initializer_list<const char*> keys);

float to_float(const nlohmann::json& value, const char* key);  // null: kNoValue; "NaN", "Infinity", "-Infinity"
std::int64_t to_count(const nlohmann::json& value, const char* key, double limit);  // 0 to limit
int to_index(const nlohmann::json& value, const char* key, int lowest, int highest);
const nlohmann::json& list_of(const nlohmann::json& value, const char* key, std::size_t size,
                              const char* of_what);  // size 0: any
std::vector<std::uint32_t> to_counts(const nlohmann::json& list, const char* key, std::size_t size,
                                     const char* of_what = "experts");
std::vector<float> to_floats(const nlohmann::json& list, const char* key, std::size_t size,
                             const char* of_what = "experts");

}  // namespace moescope
