#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_check_command(CLI::App& app);

}  // namespace moescope
