#include "core/training/engine/live_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "core/frame/frame.h"
#include "core/training/engine/live_thread.h"
#include "core/training/engine/run_groups.h"

namespace moescope {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::vector<Trainer> make_trainers(std::vector<RunConfig> configs) {
  for (std::size_t i = 1; i < configs.size(); ++i)
    configs[i].name = free_name(configs[i].name, std::span(configs).first(i));
  return {configs.begin(), configs.end()};
}

// The functions below throw std::invalid_argument. Functions with a LiveState must be called under its lock.

// Checks the domains of data.mixture against those of the open data, which never change.
void require_domains(const std::string& mixture, const std::vector<std::string>& domains) {
  try {
    mixture_weights(mixture, domains);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(Setting(&DataConfig::mixture).key() + ": " + error.what());
  }
}

void require_room(const LiveState& live) {
  if (live.runs.size() >= kMaxRuns)
    throw std::invalid_argument(fmt::format("{} runs are open, more cannot be compared: close one first", kMaxRuns));
}

std::string unique_name(const LiveState& live, const std::string& base_name) {
  std::vector<RunConfig> named;
  for (const LiveState::OpenRun& run : live.runs) named.push_back(run.config);
  return free_name(base_name, named);
}

// Returns the settings of the requested run after it has inherited the changes of another run.
RunConfig config_to_come(const LiveState& live, const AddRunRequest& request) {
  RunConfig config = request.config;
  for (const PinnedChange& made : live.changes.inherited(request.inheritance)) {
    made.change.setting.field().set(config, made.change.value);
    require_valid(config);
  }
  return config;
}

void require_routing_to_come(const LiveState& live, const RunConfig& config, std::int64_t first_step) {
  if (config.router.replay && live.status.step > first_step)
    throw std::invalid_argument(
        fmt::format("run {} replays run A's routing (router.replay), which is not kept for the {} steps already taken: "
                    "start run A again together with this twin",
                    config.name, live.status.step - first_step));
}

// Refuses a change after which a run could not replay run A's routing, because their routings differ in shape.
void require_replayable(const LiveState& live, int run, const RunConfig& changed) {
  const auto config_of = [&](const LiveState::OpenRun& open) { return open.number == run ? changed : open.config; };
  const RunConfig first = config_of(live.runs.front());
  for (const LiveState::OpenRun& open : live.runs)
    if (const std::string problem = replay_problem(first, config_of(open)); !problem.empty())
      throw std::invalid_argument(problem);
}

// Opens the run, adds the request and returns the run's number.
int open_new_run(LiveState& live, AddRunRequest request) {
  request.config.name = unique_name(live, request.config.name);
  require_valid(request.config);
  RunConfig changed_config = config_to_come(live, request);
  const int number = request.number = live.next_number++;
  const std::int64_t first_step = request.from ? request.from->steps_taken : live.first_step;
  live.runs.push_back({number, std::move(changed_config),
                       live.sink.add_run(run_info(request.config, number, live.domains)), first_step});
  if (live.status.step > first_step) {
    live.status.catching_up.push_back({number, first_step});
    live.lowest_step = std::min(live.lowest_step, first_step);
  }
  live.requests.push_back(std::move(request));
  live.ask();
  return number;
}

// Accepts a valid change of one run.
void accept_change(LiveState& live, LiveChange change, LiveState::OpenRun& run) {
  const ConfigField& field = change.setting.field();
  const bool for_all = change.setting == &DataConfig::mixture && live.runs.size() > 1;
  Marker marker = change_marker(change.run, PinnedChange::kNotYet, field.key, to_string(field.get(run.config)),
                                to_string(change.value), for_all);
  field.set(run.config, change.value);
  live.requests.push_back(live.changes.add(std::move(change), std::move(marker)));
}

}  // namespace

LiveRuns::LiveRuns(std::vector<RunConfig> configs, std::string recording_path, const GoesOn& goes_on)
    : LiveRuns(make_trainers(std::move(configs)), std::move(recording_path), goes_on) {}

LiveRuns::LiveRuns(std::vector<Trainer> trainers, std::string recording_path, const GoesOn& goes_on) {
  EngineOptions options{.recording = recording_path, .goes_on = goes_on};
  engine_ = std::make_unique<Engine>(std::move(trainers), options);
  state_ = std::make_unique<LiveState>(*engine_, recording_path);
  thread_ = std::make_unique<LiveThread>(*engine_, *state_);
}

LiveRuns::~LiveRuns() = default;

std::vector<std::shared_ptr<const History>> LiveRuns::histories() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::shared_ptr<const History>> histories;
  for (const LiveState::OpenRun& run : state_->runs) histories.push_back(run.history);
  return histories;
}

LiveStatus LiveRuns::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

RunConfig LiveRuns::config(int run) const {
  const std::lock_guard lock(state_->mutex);
  return state_->find_or_throw(run).config;
}

void LiveRuns::run() {
  run_until(kNoLimit);
}

void LiveRuns::run_until(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) return;
  state_->status.error.clear();
  state_->run_before = step;
  state_->status.running = step > state_->lowest_step;
  state_->wake.notify_one();
}

void LiveRuns::pause() {
  const std::lock_guard lock(state_->mutex);
  state_->status.running = false;
  state_->single_steps = 0;
  state_->wake.notify_one();
}

void LiveRuns::step_once() {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) return;
  state_->status.error.clear();
  state_->status.running = false;
  ++state_->single_steps;
  state_->wake.notify_one();
}

void LiveRuns::set_max_steps_per_s(double limit) {
  const std::lock_guard lock(state_->mutex);
  state_->max_steps_per_s = limit;
  state_->ask();
}

int LiveRuns::add_run(RunConfig config) {
  const std::lock_guard lock(state_->mutex);
  const LiveState::OpenRun& first = state_->runs.front();
  require_room(*state_);
  if (const std::string problem = lock_step_problem(first.config, config); !problem.empty())
    throw std::invalid_argument(problem);
  require_valid(config);
  require_routing_to_come(*state_, config, state_->first_step);
  AddRunRequest request;
  request.config = state_->first_config_at_start;
  request.inheritance.run = first.number;
  const std::int64_t first_step = state_->first_step;
  if (first_step > 0) request.from = state_->ring.find(first_step, first.number);
  for (const ConfigDifference& found : difference(first.config, config)) {
    const ConfigField& field = found.setting.field();
    if (first_step > 0 && (!field.live || !request.from))
      throw std::invalid_argument(
          fmt::format("these runs were resumed at step {}, so that a new run cannot take the steps before: {} can be "
                      "compared only from the beginning",
                      first_step, field.key));
    field.set(request.config, field.get(config));
    request.inheritance.except.insert(found.setting);
  }
  if (first_step > 0 && !request.from)
    throw std::invalid_argument(fmt::format(
        "these runs were resumed at step {} and no checkpoint of that step is kept (telemetry.checkpoint_every is 0)",
        first_step));
  request.config.name = config.name;
  return open_new_run(*state_, std::move(request));
}

void LiveRuns::remove_run(int run) {
  const std::lock_guard lock(state_->mutex);
  const LiveState::OpenRun& open = state_->find_or_throw(run);
  if (&open == &state_->runs.front())
    throw std::invalid_argument("run " + open.config.name + " is the first: all others read its batches");
  std::erase_if(state_->runs, [run](const LiveState::OpenRun& candidate) { return candidate.number == run; });
  state_->requests.push_back(RemoveRunRequest{run});
  state_->ask();
}

void LiveRuns::change(const LiveChange& change) {
  const std::lock_guard lock(state_->mutex);
  const LiveState::OpenRun& run = state_->find_or_throw(change.run);
  require_live(change);
  const bool shared = change.setting == &DataConfig::mixture;
  if (shared) require_domains(std::get<std::string>(change.value), state_->domains);
  RunConfig changed = run.config;
  change.setting.field().set(changed, change.value);
  require_valid(changed);
  require_replayable(*state_, change.run, changed);
  for (LiveState::OpenRun& open : state_->runs)
    if (shared || open.number == change.run) accept_change(*state_, {open.number, change.setting, change.value}, open);
  state_->ask();
}

void LiveRuns::pin(Marker marker) {
  state_->sink.publish(std::move(marker));
}

void LiveRuns::save_checkpoint(std::string directory) {
  const std::lock_guard lock(state_->mutex);
  state_->requests.push_back(SaveRequest{std::move(directory)});
  state_->ask();
}

std::shared_ptr<const Capture> LiveRuns::capture(int run, const OperandPlace& place) {
  const std::lock_guard lock(state_->mutex);
  state_->find_or_throw(run);
  auto capture = std::make_shared<Capture>();
  state_->requests.push_back(CaptureRequest{run, place, capture});
  state_->ask();
  return capture;
}

std::vector<KeptCheckpoint> LiveRuns::checkpoints() const {
  return state_->ring.list();
}

std::shared_ptr<const TrainerSnapshot> LiveRuns::checkpoint_before(int run, std::int64_t step) const {
  CheckpointRing::Snapshot newest;
  for (const KeptCheckpoint& checkpoint : state_->ring.list())
    if (checkpoint.step <= step)
      if (CheckpointRing::Snapshot found = state_->ring.find(checkpoint.step, run)) newest = std::move(found);
  return newest;
}

void LiveRuns::keep_checkpoint() {
  const std::lock_guard lock(state_->mutex);
  state_->requests.push_back(KeepCheckpointRequest{});
  state_->ask();
}

void LiveRuns::rewind(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  LiveState& live = *state_;
  RewindRequest request{step, {}};
  if (!live.ring.holds(step)) throw std::invalid_argument(fmt::format("no checkpoint of step {} is kept", step));
  for (const LiveState::OpenRun& run : live.runs) {
    CheckpointRing::Snapshot snapshot = live.ring.find(step, run.number);
    const auto behind = std::ranges::find(live.status.catching_up, run.number, &RunProgress::run);
    if (!snapshot && (behind == live.status.catching_up.end() || behind->step > step))
      throw std::invalid_argument(
          fmt::format("run {} is not in the checkpoint of step {}: it began later; close it, or rewind to a later step",
                      run.config.name, step));
    request.runs[run.number] = std::move(snapshot);
  }
  live.changes.undo_after(step);
  for (LiveState::OpenRun& run : live.runs)
    if (request.runs[run.number]) run.config = request.runs[run.number]->config;
  live.ring.forget_after(step);
  live.status.error.clear();
  live.status.running = false;
  live.single_steps = 0;
  live.status.step = step;
  live.lowest_step = std::min(live.lowest_step, step);
  live.requests.push_back(std::move(request));
  live.ask();
}

int LiveRuns::branch(int run, std::int64_t step, const std::vector<LiveChange>& changes) {
  const std::lock_guard lock(state_->mutex);
  const LiveState::OpenRun& source = state_->find_or_throw(run);
  require_room(*state_);
  AddRunRequest request;
  request.from = state_->ring.find(step, run);
  if (!request.from)
    throw std::invalid_argument(fmt::format("no checkpoint of run {} at step {} is kept", source.config.name, step));
  request.config = request.from->config;
  request.inheritance = {run, state_->changes.last_before(step), {}};
  request.text = fmt::format("branched off run {} at step {}", source.config.name, step);
  for (const LiveChange& change : changes) {
    const ConfigField& field = change.setting.field();
    require_live(change);
    if (change.setting == &DataConfig::mixture)
      throw std::invalid_argument(field.key + ": cannot be changed for a twin alone");
    request.text += ", " + change_text(field.key, to_string(field.get(request.config)), to_string(change.value));
    field.set(request.config, change.value);
    request.inheritance.except.insert(change.setting);
  }
  request.config.name = twin_name(request.from->config, request.config);
  require_routing_to_come(*state_, request.config, step);
  return open_new_run(*state_, std::move(request));
}

void LiveRuns::flush() {
  std::unique_lock lock(state_->mutex);
  state_->ask();
  const std::uint64_t round = state_->requested_rounds;
  state_->idle.wait(lock, [&] { return state_->finished_rounds >= round || state_->stop; });
  lock.unlock();
  state_->sink.flush();
}

}  // namespace moescope
