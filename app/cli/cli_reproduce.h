// moescope-cli reproduce: trains a recorded run again and compares.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_reproduce_command(CLI::App& app);

}  // namespace moescope
