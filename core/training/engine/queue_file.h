// The state of a queue of candidates beside its recordings, so that it can be continued after a restart of the program.
//
// TOML: `steps`, `finished_groups`, and the settings of each run as a [[run]]. The recordings determine what was
// trained (finished_group()); the number of finished groups is only for lists of queues, which do not read the
// recordings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

struct QueueState {
  std::vector<RunConfig> runs;  // run A, then its candidates
  std::int64_t steps = 0;       // steps of every group, at least 1
  int finished = 0;             // number of finished groups
};

inline constexpr const char* kQueueSuffix = ".queue";
// Returns "sweep.queue" for "sweep.moescope" (the path from which path_of_group() makes the recordings), and the
// reverse.
std::string queue_file_of(const std::string& recording);
std::string recording_of_queue(const std::string& queue_file);
// Returns "sweep.queue" for "sweep-2.moescope" if there is such a file; empty if the recording does not belong to a
// queue.
std::string queue_file_beside(const std::string& group_recording);

// Both throw std::runtime_error with file, line and key.
QueueState parse_queue(std::string_view text, std::string_view file_name);
QueueState load_queue(const std::string& path);
void save_queue(const std::string& path, const QueueState& state);  // throws std::runtime_error "PATH: why"

}  // namespace moescope
