// Figures in columns on a terminal.
#pragma once

#include <string>
#include <vector>

namespace moescope {

using TextRow = std::vector<std::string>;

std::string figure_text(float value, const char* format, double factor = 1);  // "-": missing
// Removes the columns that hold only "-" below their title.
void drop_empty_columns(std::vector<TextRow>& rows);
// The rows in columns as wide as their widest cell, the first and the last left-aligned, the others right-aligned.
std::string aligned(const std::vector<TextRow>& rows);

}  // namespace moescope
