// Shared by the commands that open runs: options for files of other programs, and messages on standard error.
#pragma once

#include <string>

#include "app/cli/command_line.h"
#include "core/logs/open_runs.h"
#include "core/recording/recording.h"

namespace moescope {

// Adds --layers, --top-k and --experts, for files of routed experts that do not state their shape.
void add_routed_options(Command& command, RoutedShape& routed);
// Returns `file`, or for "-" the copy of standard input, after it has ended. The copy lasts as long as the program.
// Throws std::runtime_error if standard input is a terminal, cannot be read, or is named for the second time.
std::string input_path(const std::string& file);
// Adds --run, for files that hold several runs.
void add_run_option(Command& command, std::string& run);
// Opens the run of this name, or all runs of the file if `run` is empty. Throws std::runtime_error if there is none.
OpenedRuns read_runs(const std::string& file, const std::string& run, const RoutedShape& routed = {});

void print_missing(const RecordingReader& recording);  // prints which parts are known to be missing
void print_remarks(const OpenedRuns& opened);          // prints restarts and unknown names
void print_notes(const OpenedRuns& opened);            // prints the remarks and the number of unreadable lines

}  // namespace moescope
