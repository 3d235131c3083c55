// Reads logs line by line. A bad line is counted and does not affect the others.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

using TakeLine = std::function<void(std::string_view line)>;  // throws Unreadable for a bad line

// Calls `take` with each line of the files, which are read as one log. Counts all lines in `imported.lines` and the bad
// ones, which include lines of more than `longest` bytes, in `imported.bad`. Skips empty lines. Returns false if
// `options.progress` cancelled. Throws std::runtime_error if a file cannot be read.
bool take_lines(const std::vector<std::filesystem::path>& files, std::size_t longest, const TakeLine& take,
                const ImportOptions& options, Imported& imported);

}  // namespace moescope
