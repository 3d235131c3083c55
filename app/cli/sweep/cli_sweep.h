// moescope-cli sweep.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_sweep_command(CLI::App& app);

}  // namespace moescope
