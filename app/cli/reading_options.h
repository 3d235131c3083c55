// Options of the commands that open runs of other programs.
#pragma once

#include <string>

#include "app/cli/command_line.h"
#include "core/logs/import.h"

namespace moescope {

// Adds --layers, --top-k and --experts, for files of routed experts that do not state their shape.
void add_routed_options(Command& command, RoutedShape& routed);

// Adds --run, for files that hold several runs.
void add_run_option(Command& command, std::string& run);

}  // namespace moescope
