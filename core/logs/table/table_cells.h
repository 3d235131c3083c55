// Reads numbers in the cells of a table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/logs/runs/log_record.h"

namespace moescope {

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
