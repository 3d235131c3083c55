// moescope-cli predict: modelled times of a training step on a cluster, or of measured layers from a calibration file.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

// Adds the sub-command; its callback throws std::runtime_error for errors that the user can fix.
void add_predict_command(CLI::App& app);

}  // namespace moescope
