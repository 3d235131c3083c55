// Logs that are read a line after another, where a bad line is counted and the others are good.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

using TakeLine = std::function<void(std::string_view line)>;  // throws Unreadable: a bad line

// All files as one log, into `imported.lines` and `imported.bad`; empty lines are passed over, a line of more than
// `longest` bytes is a bad one. False: cancelled by `options.progress`. Throws std::runtime_error: a file cannot be
// read.
bool take_lines(const std::vector<std::filesystem::path>& files, std::size_t longest, const TakeLine& take,
                const ImportOptions& options, Imported& imported);

// The lines of a file that is in memory.
void take_lines(std::string_view bytes, const TakeLine& take, BadLines& bad);

}  // namespace moescope
