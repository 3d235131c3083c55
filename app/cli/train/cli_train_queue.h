// More candidates than train side by side: moescope-cli train takes them in groups (run_queue.h), each with run A and a
// recording of its own, and prints one table of outcomes. Groups that an earlier start finished are kept with
// --continue.
#pragma once

#include <vector>

#include "app/cli/train/cli_train_options.h"
#include "core/config/run_config.h"

namespace moescope {

// Throws std::runtime_error: options that do not go with groups, recordings of other candidates, outputs that cannot be
// written; ExitStatus, if training failed or was stopped.
void train_groups(const TrainOptions& options, const std::vector<RunConfig>& runs);

}  // namespace moescope
