// Messages about the input of a command on standard error: a recording that was copied without its log, lines that were
// left out of a log.
#pragma once

#include "core/logs/open_runs.h"
#include "core/recording/recording.h"

namespace moescope {

void print_missing(const RecordingReader& recording);  // prints that steps may be missing, if they may
void print_remarks(const OpenedRuns& opened);          // prints restarts and unknown names
void print_notes(const OpenedRuns& opened);            // prints the remarks and the number of unreadable lines

}  // namespace moescope
