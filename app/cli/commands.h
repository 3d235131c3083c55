// The commands of moescope-cli, each in the file of its name. Their callbacks throw std::runtime_error for wrong input,
// which the user can correct, and ExitStatus (command_line.h) for later failures.
#pragma once

namespace CLI {
class App;
}

namespace moescope {

void add_train_command(CLI::App& app);      // the trainer without a window
void add_sweep_command(CLI::App& app);      // a grid of runs
void add_reproduce_command(CLI::App& app);  // trains a recorded run again and compares
void add_scan_command(CLI::App& app);       // effect of each operand's format on the gradient
void add_lesson_command(CLI::App& app);     // a guided lesson without a window
void add_claims_command(CLI::App& app);     // published claims, tested on a small model
void add_import_command(CLI::App& app);     // converts logs of other programs to a recording
void add_run_command(CLI::App& app);        // runs texts through a checkpoint of Hugging Face transformers
void add_export_command(CLI::App& app);     // converts a recording to formats that other programs read
void add_check_command(CLI::App& app);      // findings of runs, for scripts
void add_figures_command(CLI::App& app);    // newest figures of a run
void add_quantize_command(CLI::App& app);   // quantizes the tensors of a file
void add_volumes_command(CLI::App& app);    // bytes of an all-to-all by link, counted from a routing
void add_predict_command(CLI::App& app);    // modelled times of a training step on a cluster, or of measured layers

}  // namespace moescope
