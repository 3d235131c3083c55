// Numbers as programs print them and write them into the cells of tables, where a comma may separate groups of digits
// or be a decimal point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/logs/runs/log_record.h"

namespace moescope {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Returns the number of a text: "+2.5", "1e-05", "nan", "-Infinity", "123ms", "32.8K", "12.5%", which is 0.125. Commas
// are dropped only between groups of three digits: "72,914" is 72914. Returns nullopt for any other text, such as
// "3,5".
std::optional<double> printed_number(std::string_view text);
bool is_unit(std::string_view text);  // "ms", "%"

// Returns the length of the number with which the text begins, with its unit and without commas at its end; also of a
// text such as "3,5", which may be a number. Returns 0 if there is none or it does not end at a blank, a bracket, "|",
// ";" or the end of the text.
std::size_t number_length(std::string_view text);

// True for "2,345", which is 2345 in groups of digits and 2.345 with a decimal comma. A second group or a decimal point
// would tell.
bool may_have_decimal_comma(std::string_view text);

// Writes the decimal comma of "1.234,5 %" as a point, "1234.5 %". Other texts stay as they are.
void drop_groups(std::string& text);  // "72,914" as "72914", where a comma is no decimal point
void write_decimal_point(std::string& text);

// True for a text of digits, signs, separators and an exponent, whether or not it is a number: "3,5", "1.234,5",
// "2026-07-17".
bool is_like_number(std::string_view text);

// Returns a whole number from 0 to `most`; 12.0 and 1.2e3 are accepted. Throws Unreadable with `what` and the cell.
std::int64_t whole_number(std::string_view cell, std::int64_t highest, const char* what);
// Reads a whole number as whole_number() does, or the only number in a name: 3 in "layer_3" and "model.layers.3.mlp".
std::int64_t number_in_name(std::string_view cell, std::int64_t highest, const char* what);
// True for cells that stand for no value: empty, NA, null, None, ...
bool is_no_value(std::string_view cell);
// Reads the cell as a number, or as a list of numbers as Python, NumPy and PyTorch print them ("[1, 2]", "[1 2]",
// "tensor([1, 2])"). Any other cell is a text, also "2,345" if its comma may be a decimal point.
void set_value(std::string_view cell, NamedValue& value, Commas commas = Commas::may_be_decimal);

}  // namespace moescope
