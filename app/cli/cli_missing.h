// What a command says of its input on standard error: a recording whose log was not copied along, what was left out of
// a log.
#pragma once

#include "core/logs/open_runs.h"
#include "core/recording/recording.h"

namespace moescope {

void print_missing(const RecordingReader& recording);  // if anything is missing
void print_remarks(const OpenedRuns& opened);          // restarts, names that were not understood
void print_notes(const OpenedRuns& opened);            // these, and how many lines could not be read

}  // namespace moescope
