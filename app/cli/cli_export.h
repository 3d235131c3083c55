// moescope-cli export: converts a recording to formats that other programs read.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_export_command(CLI::App& app);

}  // namespace moescope
