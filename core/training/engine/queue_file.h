// The state of a queue of candidates beside its recordings, so that it can be continued after a restart of the program.
//
// JSON: {"moescope_queue": 1, "steps": 400, "finished_groups": 1, "runs": [TOML of run A, TOML of a candidate, ...]}.
// The recordings determine what was trained (finished_group()); the number of finished groups in the file is only for
// lists of queues, which do not read the recordings.
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

// Both throw std::runtime_error; load_queue() adds the path.
QueueState parse_queue(std::string_view json);
QueueState load_queue(const std::string& path);
void save_queue(const std::string& path, const QueueState& state);  // throws std::runtime_error "PATH: why"

}  // namespace moescope
