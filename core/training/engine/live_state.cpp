#include "core/training/engine/live_state.h"

#include <algorithm>
#include <stdexcept>

#include "core/training/checkpoint_folder.h"

namespace moescope {

LiveState::LiveState(const LockStep& lock_step, const std::string& recording_path)
    : sink(recording_path), ring(checkpoints_of(recording_path)), domains(lock_step.data().domains()) {
  for (const LockStep::Run& run : lock_step.runs()) open_run(run.number, run.trainer.config());
  first_config_at_start = runs.front().config;
  first_step = lowest_step = status.step = lock_step.next_step();
  next_number = static_cast<int>(runs.size());
}

void LiveState::ask() {
  ++asked;
  wake.notify_one();
}

void LiveState::open_run(int number, const RunConfig& config) {
  runs.push_back({number, config, sink.add_run(run_info(config, number, domains))});
}

LiveState::OpenRun* LiveState::find(int number) {
  const auto run = std::ranges::find(runs, number, &OpenRun::number);
  return run == runs.end() ? nullptr : &*run;
}

LiveState::OpenRun& LiveState::find_or_throw(int number) {
  if (OpenRun* run = find(number)) return *run;
  throw std::invalid_argument("there is no run number " + std::to_string(number));
}

}  // namespace moescope
