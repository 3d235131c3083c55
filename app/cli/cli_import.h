// moescope-cli import: runs that other programs logged, into a recording.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_import_command(CLI::App& app);

}  // namespace moescope
