// Checkpoints in the ring: when they are kept, going back to one, branching off from one.
#include "core/training/lab_state.h"

namespace moescope {

void Lab::State::keep(const LockStep::Run& run, bool by_hand) {
  ring.keep(run.number, run.trainer.snapshot(), by_hand,
            lock_step.runs().front().trainer.config().telemetry.checkpoints_kept);
}

// Before `step` is taken. A run that is catching up is kept at the same steps as the others.
void Lab::State::keep_due(std::int64_t step) {
  const int every = lock_step.runs().front().trainer.config().telemetry.checkpoint_every;
  const bool level_now = lock_step.level();
  const bool due = every > 0 && (step % every == 0 || ring.list().empty());
  if (level_now ? !due || ring.holds(step) : !ring.holds(step)) return;
  if (level_now) {
    const std::lock_guard lock(mutex);
    changes_before[step] = last_served;
  }
  for (const LockStep::Run& run : lock_step.runs())
    if (run.trainer.steps_taken() == step && !ring.find(step, run.number)) keep(run, false);
}

void Lab::State::serve(const KeepRequest&) {
  if (broken || !lock_step.level())
    return warn(broken ? "no checkpoint: training failed within a step" : "no checkpoint while a run catches up");
  const std::int64_t step = lock_step.next_step();
  {
    const std::lock_guard lock(mutex);
    changes_before[step] = last_served;
  }
  for (const LockStep::Run& run : lock_step.runs()) {
    keep(run, true);
    sink.publish(Marker{run.number, step, "event", "checkpoint kept"});
  }
}

void Lab::State::serve(const RewindRequest& request) {
  const std::int64_t from = lock_step.runs().front().trainer.steps_taken();
  ring.forget_after(request.step);  // again: the step in flight may have been due
  for (auto [number, snapshot] : request.runs) {
    Trainer* trainer = lock_step.find(number);
    if (!trainer) continue;  // removed since
    if (!snapshot && trainer->steps_taken() > request.step) snapshot = ring.find(request.step, number);
    std::erase_if(pending[number], [&](const PinnedChange& change) { return change.step > request.step; });
    if (!snapshot) continue;  // not so far yet
    pending[number].clear();
    trainer->restore(*snapshot);
    sink.rewind(number, request.step);
    sink.publish(
        Marker{number, request.step, "event", "rewound from step " + std::to_string(from) + " to the checkpoint here"});
  }
  lock_step.set_mixture(request.step, lock_step.runs().front().trainer.config().data.mixture);
  const std::lock_guard lock(mutex);
  changes_before.erase(changes_before.upper_bound(request.step), changes_before.end());
  broken = false;
}

std::vector<KeptCheckpoint> Lab::checkpoints() const {
  return state_->ring.list();
}

std::shared_ptr<const TrainerSnapshot> Lab::checkpoint_before(int run, std::int64_t step) const {
  CheckpointRing::Snapshot newest;
  for (const KeptCheckpoint& kept : state_->ring.list())
    if (kept.step <= step)
      if (CheckpointRing::Snapshot found = state_->ring.find(kept.step, run)) newest = std::move(found);
  return newest;
}

void Lab::keep_checkpoint() {
  const std::lock_guard lock(state_->mutex);
  state_->requests.push_back(State::KeepRequest{});
  state_->ask_locked();
}

void Lab::rewind(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  State& s = *state_;
  State::RewindRequest request{step, {}};
  if (!s.ring.holds(step)) throw std::invalid_argument("no checkpoint of step " + std::to_string(step) + " is kept");
  for (const State::OpenRun& run : s.runs) {
    CheckpointRing::Snapshot snapshot = s.ring.find(step, run.number);
    const auto behind = std::ranges::find(s.status.catching_up, run.number, &RunProgress::run);
    if (!snapshot && (behind == s.status.catching_up.end() || behind->step > step))
      throw std::invalid_argument("run " + run.config.name + " is not in the checkpoint of step " +
                                  std::to_string(step) + ": it began later; close it, or rewind to a later step");
    request.runs[run.number] = std::move(snapshot);
  }
  const std::uint64_t last = s.changes_before[step];
  std::erase_if(s.changes, [last](const PinnedChange& change) { return change.id > last; });
  s.changes_before.erase(s.changes_before.upper_bound(step), s.changes_before.end());
  for (State::OpenRun& run : s.runs)
    if (request.runs[run.number]) run.config = request.runs[run.number]->config;
  s.ring.forget_after(step);
  s.status.error.clear();
  s.status.running = false;
  s.single_steps = 0;
  s.status.step = step;
  s.lowest_step = std::min(s.lowest_step, step);
  s.requests.push_back(std::move(request));
  s.ask_locked();
}

int Lab::branch(int run, std::int64_t step, const std::vector<LiveChange>& changes) {
  const std::lock_guard lock(state_->mutex);
  State& s = *state_;
  const State::OpenRun& source = s.find_or_throw(run);
  s.require_room();
  State::AddRequest request;
  request.from = s.ring.find(step, run);
  if (!request.from)
    throw std::invalid_argument("no checkpoint of run " + source.config.name + " at step " + std::to_string(step) +
                                " is kept");
  request.like = run;
  request.config = request.from->config;
  request.changes_before = s.changes_before[step];
  request.text = "branched off run " + source.config.name + " at step " + std::to_string(step);
  for (const LiveChange& change : changes) {
    const ConfigField* field = find_field(change.key);
    if (!field || !field->live || change.key == kMixtureKey)
      throw std::invalid_argument(change.key + ": cannot be changed for a twin alone");
    if (std::string message = check_field(*field, change.value); !message.empty())
      throw std::invalid_argument(change.key + ' ' + message);
    request.text += ", " + change_text(field->key, to_string(field->get(request.config)), to_string(change.value));
    field->set(request.config, change.value);
    request.deliberate.insert(change.key);
  }
  request.config.name = twin_name(request.from->config, request.config);
  return s.open(std::move(request));
}

}  // namespace moescope
