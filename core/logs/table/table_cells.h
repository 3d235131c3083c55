// Numbers in the cells of a table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moescope {

// A whole number from 0 to `most`, which may be written as 12.0 or 1.2e3. Throws Unreadable: "count: ..." with what it
// is instead.
std::int64_t whole_number(std::string_view cell, std::int64_t most, const char* what);
// As a value of JSON: numbers as such, NaN and infinity as Python writes them, lists of numbers, all else as text.
void append_json_value(std::string_view cell, std::string& json);

}  // namespace moescope
