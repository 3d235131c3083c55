// moescope-cli train: the trainer without a window.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

// Throws std::runtime_error on what the user gave wrong, CLI::RuntimeError with an exit status on what went wrong
// later.
void add_train_command(CLI::App& app);

}  // namespace moescope
