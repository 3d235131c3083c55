// Figures in columns of text on a terminal.
#pragma once

#include <string>
#include <vector>

namespace moescope {

using TextRow = std::vector<std::string>;

std::string figure_text(float value, const char* format, double factor = 1);  // "-" for a missing value
// Removes the columns that hold only "-" below their title.
void drop_empty_columns(std::vector<TextRow>& rows);
// Returns the rows in columns as wide as their widest cell. The first and the last column are left-aligned, the others
// right-aligned.
std::string aligned(const std::vector<TextRow>& rows);

}  // namespace moescope
