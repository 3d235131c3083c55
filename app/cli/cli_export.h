// moescope-cli export: converts a recording to formats that other programs read.
#pragma once

#include <CLI/CLI.hpp>

namespace moescope {

void add_export_command(CLI::App& app);

}  // namespace moescope
