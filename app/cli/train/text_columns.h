// Figures in columns on a terminal.
#pragma once

#include <string>
#include <vector>

namespace moescope {

using TextRow = std::vector<std::string>;

std::string figure_text(float value, const char* format, double factor = 1);  // "-": missing
// Without the columns that hold nothing but "-" below their title.
void drop_empty_columns(std::vector<TextRow>& rows);
// Columns as wide as their widest cell; the first and the last to the left, figures to the right.
std::string aligned(const std::vector<TextRow>& rows);

}  // namespace moescope
