#include "core/training/engine/live_state.h"

#include <algorithm>
#include <stdexcept>

#include "core/training/checkpoint_folder.h"

namespace moescope {

LiveState::LiveState(Engine& engine, const std::string& recording_path)
    : sink(engine.sink()), ring(checkpoints_of(recording_path)), domains(engine.data().domains()) {
  for (std::size_t i = 0; i < engine.runs().size(); ++i)
    runs.push_back({engine.runs()[i].number, engine.runs()[i].trainer.config(), engine.histories()[i]});
  first_config_at_start = runs.front().config;
  first_step = lowest_step = status.step = engine.next_step();
  next_number = static_cast<int>(runs.size());
}

void LiveState::ask() {
  ++asked;
  wake.notify_one();
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
