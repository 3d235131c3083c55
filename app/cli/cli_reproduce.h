// moescope-cli reproduce: train a recording once more and compare.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_reproduce_command(CLI::App& app);

}  // namespace moescope
