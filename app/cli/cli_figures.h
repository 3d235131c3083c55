#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_figures_command(CLI::App& app);

}  // namespace moescope
