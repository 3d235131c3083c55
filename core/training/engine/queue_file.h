// The state of a queue of candidates beside its recordings, so that another start of the program can take it up.
//
// JSON: {"moescope_queue": 1, "steps": 400, "finished_groups": 1, "runs": [TOML of run A, TOML of a candidate, ...]}.
// What was trained is for the recordings to say (finished_group()); the number of groups in the file is what a list of
// queues shows without reading them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

struct QueueState {
  std::vector<RunConfig> runs;  // run A, then its candidates
  std::int64_t steps = 0;       // of every group, 1 or more
  int finished = 0;             // groups, when it was written
};

inline constexpr const char* kQueueSuffix = ".queue";
// "sweep.moescope", of which path_of_group() makes the recordings, -> "sweep.queue", and back.
std::string queue_file_of(const std::string& recording);
std::string recording_of_queue(const std::string& queue_file);
// "sweep-2.moescope" -> "sweep.queue" if there is such a file; empty: the recording is of no queue.
std::string queue_file_beside(const std::string& group_recording);

// Throw std::runtime_error with what is wrong, the second with the path.
QueueState parse_queue(std::string_view json);
QueueState load_queue(const std::string& path);
void save_queue(const std::string& path, const QueueState& state);  // throws std::runtime_error "PATH: why"

}  // namespace moescope
