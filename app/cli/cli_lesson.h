// moescope-cli lesson: runs a guided lesson without a window.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_lesson_command(CLI::App& app);

}  // namespace moescope
