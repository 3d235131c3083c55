#include "core/training/engine/live_thread.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/training/checkpoint_folder.h"

namespace moescope {
namespace {

constexpr double kSpeedSeconds = 2;  // shortest span over which the speed is measured

}  // namespace

PendingCaptures::~PendingCaptures() {
  fail_all("the run was closed");
}

void PendingCaptures::add(int run, const OperandPlace& place, std::shared_ptr<Capture> capture) {
  pending_.push_back({run, std::move(capture), std::make_unique<OperandTap>(place)});
}

void PendingCaptures::fail_run(int run, const std::string& reason) {
  std::erase_if(pending_, [&](const Pending& pending) {
    if (pending.run == run) pending.capture->fail(reason);
    return pending.run == run;
  });
}

void PendingCaptures::fail_all(const std::string& reason) {
  for (const Pending& pending : pending_) pending.capture->fail(reason);
  pending_.clear();
}

void PendingCaptures::join_step(Engine& runs) {
  const std::int64_t step = runs.next_step();
  std::set<int> joined;
  for (Pending& pending : pending_) {
    const Trainer* trainer = runs.find(pending.run);
    if (!trainer || trainer->steps_taken() != step || !joined.insert(pending.run).second) continue;
    pending.step = step;
    runs.tap_next_step(pending.run, pending.tap.get());
  }
}

void PendingCaptures::finish_step(Engine& runs) {
  std::erase_if(pending_, [&](Pending& pending) {
    const Trainer* trainer = runs.find(pending.run);
    if (pending.step < 0 || !trainer || trainer->steps_taken() <= pending.step) return false;
    deliver(pending, *trainer, pending.step, false);
    return true;
  });
}

void PendingCaptures::compute_ahead(Engine& runs, bool paused) {
  const std::int64_t next = runs.next_step();
  std::erase_if(pending_, [&](Pending& pending) {
    Trainer* trainer = runs.find(pending.run);
    if (!trainer) {
      pending.capture->fail("the run was removed");
      return true;
    }
    if (!paused && trainer->steps_taken() == next) return false;
    const std::int64_t step = trainer->steps_taken();
    try {
      trainer->compute_ahead(runs.batch(step), *pending.tap);
      deliver(pending, *trainer, step, true);
    } catch (const std::exception& error) {
      pending.capture->fail(fmt::format("step {} could not be computed: {}", step, error.what()));
    }
    return true;
  });
}

void PendingCaptures::deliver(Pending& pending, const Trainer& trainer, std::int64_t step, bool ahead) {
  const OperandPlace place = pending.tap->place();
  std::optional<CapturedOperand> captured = pending.tap->finish(trainer.config().model.n_experts);
  if (!captured) return pending.capture->fail("run " + trainer.config().name + " has no " + place_text(place));
  captured->run = pending.run;
  captured->run_name = trainer.config().name;
  captured->step = step;
  captured->ahead = ahead;
  pending.capture->finish(std::move(*captured));
}

LiveThread::LiveThread(Engine& engine, LiveState& shared)
    : engine_(engine), shared_(shared), thread_([this] { engine_.train([this] { return wait_for_step(); }, *this); }) {}

LiveThread::~LiveThread() {
  engine_.stop();
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.stop = true;
    shared_.wake.notify_one();
    shared_.idle.notify_all();
  }
  thread_.join();
  for (const LiveRequest& request : shared_.requests)
    if (const auto* asked_for = std::get_if<CaptureRequest>(&request)) asked_for->capture->fail("the run was closed");
}

// --- schedule: these functions hold the lock, except while they work ---

bool LiveThread::wait_for_step() {
  std::unique_lock lock(shared_.mutex);
  note_trouble();
  while (wait_for_work(lock)) {
    do_requests(lock);
    if (shared_.status.running && shared_.lowest_step >= shared_.run_before) shared_.status.running = false;
    if (shared_.stop) continue;
    if (!captures_.empty()) compute_captures_ahead(lock);
    if (may_step()) return true;
  }
  return false;
}

// True if the next step may be taken now. Requests are served first, so that a change made before a step was requested
// applies to that step.
bool LiveThread::may_step() {
  if (shared_.stop || !shared_.requests.empty() || !shared_.wants_step()) return false;
  const bool limited = is_limited();
  if (limited && Clock::now() < next_due_) return false;
  if (shared_.single_steps > 0) --shared_.single_steps;
  if (limited)
    next_due_ = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / shared_.max_steps_per_s));
  return true;
}

// A NaN or infinite loss pauses training. After a failed step, training can continue only from a checkpoint.
void LiveThread::note_trouble() {
  if (!engine_.trouble() || shared_.broken) return;
  shared_.broken = engine_.trouble()->within_step;
  shared_.status.error = engine_.trouble()->text();
  shared_.status.running = false;
  shared_.single_steps = 0;
  if (shared_.broken)
    captures_.fail_all("the step failed");
  else
    engine_.forget_trouble();
}

// Returns true with the lock held when there is work to do; false to stop.
bool LiveThread::wait_for_work(std::unique_lock<std::mutex>& lock) {
  while (!shared_.stop && shared_.requested_rounds == shared_.finished_rounds) {
    if (!shared_.wants_step()) {
      if (!captures_.empty()) break;
      shared_.wake.wait(lock);
      begin_speed();
    } else if (!is_limited() || Clock::now() >= next_due_) {
      break;
    } else {
      shared_.wake.wait_until(lock, next_due_);
    }
  }
  return !shared_.stop;
}

bool LiveThread::is_limited() const {
  return shared_.max_steps_per_s > 0 && shared_.single_steps == 0 && shared_.status.catching_up.empty();
}

void LiveThread::do_requests(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t round = shared_.requested_rounds;
  auto requests = std::exchange(shared_.requests, {});
  lock.unlock();
  for (LiveRequest& request : requests) std::visit([this](auto& asked_for) { serve(asked_for); }, request);
  std::string recording_error = shared_.sink.error(), checkpoint_error = shared_.ring.error();
  lock.lock();
  show_progress();
  if (!checkpoint_error.empty()) shared_.status.warning = std::move(checkpoint_error);
  if (!recording_error.empty()) shared_.status.warning = std::move(recording_error);
  shared_.finished_rounds = round;
  shared_.idle.notify_all();
}

// Requires the lock. A run that is not in the engine yet, because its request is not served, is at its first step.
void LiveThread::show_progress() {
  LiveStatus& status = shared_.status;
  status.step = shared_.lowest_step = step_of_first();
  status.catching_up.clear();
  for (const LiveState::OpenRun& run : shared_.runs) {
    const Trainer* trainer = engine_.find(run.number);
    const std::int64_t step = trainer ? trainer->steps_taken() : run.first_step;
    if (step < status.step) status.catching_up.push_back({run.number, step});
    shared_.lowest_step = std::min(shared_.lowest_step, step);
  }
}

void LiveThread::compute_captures_ahead(std::unique_lock<std::mutex>& lock) {
  const bool paused = !shared_.wants_step();
  lock.unlock();
  apply_pending(engine_.next_step());
  captures_.compute_ahead(engine_, paused);
  lock.lock();
}

void LiveThread::before_step(Engine&) {
  const std::int64_t step = engine_.next_step();
  apply_pending(step);
  keep_due(step);
  captures_.join_step(engine_);
}

void LiveThread::after_step(Engine&) {
  captures_.finish_step(engine_);
  const std::lock_guard lock(shared_.mutex);
  show_progress();
  ++steps_;
  show_speed();
}

void LiveThread::begin_speed() {
  speed_begin_ = Clock::now();
  steps_ = frames_ = 0;
}

// Requires the lock. Both figures are of the same span, because single steps differ: some also validate or measure.
void LiveThread::show_speed() {
  const double seconds = std::chrono::duration<double>(Clock::now() - speed_begin_).count();
  LiveStatus& status = shared_.status;
  if (seconds < kSpeedSeconds && status.steps_per_s > 0) return;
  const DataConfig& data = engine_.first().trainer.config().data;
  status.steps_per_s = steps_ / seconds;
  status.tokens_per_s = (frames_ * data.batch * data.seq) / seconds;
  begin_speed();
}

// --- requests, and work before a step: without the lock ---

void LiveThread::warn(const std::string& text) {
  const std::lock_guard lock(shared_.mutex);
  shared_.status.warning = text;
}

void LiveThread::serve(PinnedChange& request) {
  const Trainer* trainer = engine_.find(request.change.run);
  if (!trainer) return;  // removed in the meantime
  request.step = step_of_first();
  last_served_ = request.id;
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.changes.set_step(request.id, request.step);  // a later rewind request may undo it
  }
  if (request.change.setting == &DataConfig::mixture && request.change.run == engine_.first().number)
    engine_.set_mixture(request.step, std::get<std::string>(request.change.value));
  if (trainer->steps_taken() >= request.step) {
    apply_pending(request.step);  // earlier changes that take effect at this step
    apply(request.change.run, request);
  } else {
    pending_[request.change.run].push_back(request);
  }
}

void LiveThread::apply(int run, const PinnedChange& change) {
  Trainer& trainer = *engine_.find(run);
  trainer.apply(change.change);
  Marker marker = change.marker;
  marker.run = run;  // a twin inherits changes of another run
  marker.step = change.step;
  shared_.sink.publish(std::move(marker));
  if (change.change.setting != &TelemetryConfig::probe || trainer.steps_taken() == 0) return;
  if (auto probe = trainer.route_probe(engine_.data().tokenizer()))
    shared_.sink.publish_edited_probe(run, std::move(*probe));
}

void LiveThread::apply_pending(std::int64_t step) {
  for (auto& [run, changes] : pending_) {
    if (engine_.find(run)->steps_taken() != step) continue;
    const auto later =
        std::find_if(changes.begin(), changes.end(), [step](const PinnedChange& change) { return change.step > step; });
    for (auto change = changes.begin(); change != later; ++change) apply(run, *change);
    changes.erase(changes.begin(), later);
  }
}

void LiveThread::serve(const SaveRequest& request) {
  if (const std::string problem = engine_.save_checkpoint(request.directory); !problem.empty()) warn(problem);
}

void LiveThread::serve(const AddRunRequest& request) {
  std::vector<PinnedChange> to_come;
  {
    const std::lock_guard lock(shared_.mutex);
    if (!shared_.find(request.number)) return;  // removed in the meantime
    to_come = shared_.changes.inherited(request.inheritance);
  }
  std::erase_if(to_come, [](const PinnedChange& change) { return change.step == PinnedChange::kNotYet; });
  for (PinnedChange& change : to_come) change.change.run = request.number;
  try {
    engine_.add(request.number,
                request.from ? Trainer::resume(*request.from, request.config) : Trainer(request.config));
    pending_[request.number] = std::move(to_come);
    if (!request.text.empty())
      shared_.sink.publish(Marker{request.number, request.from->steps_taken, "event", request.text});
  } catch (const std::exception& error) {
    shared_.sink.remove_run(request.number);
    const std::lock_guard lock(shared_.mutex);
    shared_.status.warning = "run " + request.config.name + " could not be opened: " + error.what();
    std::erase_if(shared_.runs, [&](const LiveState::OpenRun& run) { return run.number == request.number; });
  }
}

void LiveThread::serve(const RemoveRunRequest& request) {
  captures_.fail_run(request.number, "the run was removed");
  shared_.ring.forget_run(request.number);
  engine_.remove(request.number);
  pending_.erase(request.number);
  shared_.sink.remove_run(request.number);
}

void LiveThread::serve(const CaptureRequest& request) {
  if (!engine_.find(request.run)) return request.capture->fail("the run was removed");
  if (shared_.broken) return request.capture->fail("training failed within a step, so there is no state to look at");
  captures_.add(request.run, request.place, request.capture);
}

void LiveThread::serve(const KeepCheckpointRequest&) {
  if (shared_.broken || !engine_.level())
    return warn(shared_.broken ? "no checkpoint: training failed within a step"
                               : "no checkpoint while a run catches up");
  const std::int64_t step = engine_.next_step();
  note_changes_before(step);
  for (const Engine::Run& run : engine_.runs()) {
    keep(run, true);
    shared_.sink.publish(Marker{run.number, step, "event", "checkpoint kept"});
  }
}

// Keeps the checkpoint that is due before `step`. A run that is catching up is added to the checkpoints of the others.
void LiveThread::keep_due(std::int64_t step) {
  const int interval = engine_.first().trainer.config().telemetry.checkpoint_every;
  const bool level_now = engine_.level();
  const bool due = interval > 0 && (step % interval == 0 || shared_.ring.list().empty());
  if (level_now ? !due || shared_.ring.holds(step) : !shared_.ring.holds(step)) return;
  if (level_now) note_changes_before(step);
  for (const Engine::Run& run : engine_.runs())
    if (run.trainer.steps_taken() == step && !shared_.ring.find(step, run.number)) keep(run, false);
}

void LiveThread::keep(const Engine::Run& run, bool by_hand) {
  shared_.ring.keep(run.number, run.trainer.snapshot(), by_hand,
                    engine_.first().trainer.config().telemetry.checkpoints_kept);
}

void LiveThread::note_changes_before(std::int64_t step) {
  const std::lock_guard lock(shared_.mutex);
  shared_.changes.note_checkpoint(step, last_served_);
}

void LiveThread::serve(const RewindRequest& request) {
  const std::int64_t from = step_of_first();
  shared_.ring.forget_after(request.step);  // again, because the step that was in progress may have kept one
  for (auto [number, snapshot] : request.runs) {
    Trainer* trainer = engine_.find(number);
    if (!trainer) continue;  // removed in the meantime
    if (!snapshot && trainer->steps_taken() > request.step) snapshot = shared_.ring.find(request.step, number);
    std::erase_if(pending_[number], [&](const PinnedChange& change) { return change.step > request.step; });
    if (!snapshot) continue;  // the run has not reached the step
    pending_[number].clear();
    trainer->restore(*snapshot);
    shared_.sink.rewind(number, request.step);
    shared_.sink.publish(
        Marker{number, request.step, "event", fmt::format("rewound from step {} to the checkpoint here", from)});
  }
  engine_.set_mixture(request.step, engine_.first().trainer.config().data.mixture);
  const std::lock_guard lock(shared_.mutex);
  shared_.changes.forget_checkpoints_after(request.step);
  shared_.broken = false;
  engine_.forget_trouble();
}

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
  next_number = to_int(runs.size());
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
  throw std::invalid_argument(fmt::format("there is no run number {}", number));
}

}  // namespace moescope
