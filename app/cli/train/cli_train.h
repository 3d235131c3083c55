// moescope-cli train: the trainer without a window.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

// Throws std::runtime_error for wrong input, ExitStatus for later failures.
void add_train_command(CLI::App& app);

}  // namespace moescope
