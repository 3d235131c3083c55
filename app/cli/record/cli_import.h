// moescope-cli import: converts logs of other programs to a recording.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_import_command(CLI::App& app);

}  // namespace moescope
