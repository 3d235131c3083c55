// Options of every command that opens runs of other programs.
#pragma once

#include <string>

#include "app/cli/command_line.h"
#include "core/logs/import.h"

namespace moescope {

// --layers, --top-k and --experts, for files of routed experts whose shape the file does not say.
void add_routed_options(Command& command, RoutedShape& routed);

// --run, for files that hold several runs.
void add_run_option(Command& command, std::string& run);

}  // namespace moescope
