#include "core/training/engine/live_state.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/training/checkpoint_folder.h"

namespace moescope {

const PinnedChange& ChangeLog::add(LiveChange change, Marker marker) {
  changes_.push_back({++last_id_, PinnedChange::kNotYet, std::move(change), std::move(marker)});
  return changes_.back();
}

void ChangeLog::set_step(std::uint64_t id, std::int64_t step) {
  const auto found = std::ranges::find(changes_, id, &PinnedChange::id);
  if (found != changes_.end()) found->step = step;
}

std::vector<PinnedChange> ChangeLog::inherited(const Inheritance& inheritance) const {
  std::vector<PinnedChange> inherited;
  for (const PinnedChange& made : changes_) {
    if (made.change.run == inheritance.run && made.id > inheritance.after &&
        !inheritance.except.contains(made.change.setting))
      inherited.push_back(made);
  }
  return inherited;
}

std::uint64_t ChangeLog::last_before(std::int64_t step) const {
  const auto found = last_before_.find(step);
  return found == last_before_.end() ? 0 : found->second;
}

void ChangeLog::undo_after(std::int64_t step) {
  const std::uint64_t last = last_before(step);
  std::erase_if(changes_, [last](const PinnedChange& change) { return change.id > last; });
  forget_checkpoints_after(step);
}

LiveState::LiveState(Engine& engine, const std::string& recording_path)
    : sink(engine.sink()), ring(checkpoints_of(recording_path)), domains(engine.data().domains()) {
  for (std::size_t i = 0; i < engine.runs().size(); ++i)
    runs.push_back({engine.runs()[i].number, engine.runs()[i].trainer.config(), engine.histories()[i]});
  first_config_at_start = runs.front().config;
  first_step = lowest_step = status.step = engine.next_step();
  next_number = runs.size();
}

void LiveState::ask() {
  ++requested_rounds;
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
