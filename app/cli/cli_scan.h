#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_scan_command(CLI::App& app);

}  // namespace moescope
