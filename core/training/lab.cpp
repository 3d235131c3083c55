#include "core/training/lab.h"

#include <limits>

#include "core/telemetry/recording/notes.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/lab_state.h"

namespace moescope {
namespace {

using Clock = LabClock;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::vector<Trainer> make_trainers(std::vector<RunConfig> configs) {
  make_names_unique(configs);
  std::vector<Trainer> trainers;
  for (const RunConfig& config : configs) trainers.emplace_back(config);
  return trainers;
}

}  // namespace

void make_names_unique(std::vector<RunConfig>& configs) {
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const std::string name = configs[i].name.substr(0, 60);  // a name has at most 64 characters
    const auto taken = [&](const std::string& candidate) {
      return std::any_of(configs.begin(), configs.begin() + static_cast<std::ptrdiff_t>(i),
                         [&](const RunConfig& earlier) { return earlier.name == candidate; });
    };
    for (int number = 2; taken(configs[i].name); ++number) configs[i].name = name + '-' + std::to_string(number);
  }
}

void require_valid(const RunConfig& config) {
  if (const auto problems = validate(config); !problems.empty()) throw std::invalid_argument(problems.front().text());
}

// Returns with the lock held when there is something to do; false: stop.
bool Lab::State::wait_for_work(std::unique_lock<std::mutex>& lock) {
  while (!stop && asked == done) {
    if (!wants_step()) {
      if (!captures.empty()) break;
      wake.wait(lock);
    } else if (!is_limited() || Clock::now() >= next_due) {
      break;
    } else {
      wake.wait_until(lock, next_due);
    }
  }
  return !stop;
}

void Lab::State::main_loop() {
  std::unique_lock lock(mutex);
  while (wait_for_work(lock)) {
    do_requests(lock);
    if (status.running && lowest_step >= run_before) status.running = false;
    if (stop) continue;
    if (!captures.empty()) compute_captures_ahead(lock);
    if (stop || !wants_step()) continue;
    const bool limited = is_limited();
    if (limited && Clock::now() < next_due) continue;
    if (single_steps > 0) --single_steps;
    if (limited)
      next_due = Clock::now() +
                 std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / max_steps_per_s));
    take_step(lock);
  }
}

void Lab::State::do_requests(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t round = asked;
  auto taken = std::exchange(requests, {});
  lock.unlock();
  for (Request& request : taken) std::visit([this](auto& asked_for) { serve(asked_for); }, request);
  std::string recording_error = sink.error(), checkpoint_error = ring.error();
  lock.lock();
  show_progress();
  if (!checkpoint_error.empty()) status.warning = std::move(checkpoint_error);
  if (!recording_error.empty()) status.warning = std::move(recording_error);
  done = round;
  idle.notify_all();
}

// Under the lock. A run whose request is still waiting is at its first step.
void Lab::State::show_progress() {
  status.step = lowest_step = lock_step.runs().front().trainer.steps_taken();
  status.catching_up.clear();
  for (const OpenRun& run : runs) {
    const Trainer* trainer = lock_step.find(run.number);
    const std::int64_t step = trainer ? trainer->steps_taken() : run.first_step;
    if (step < status.step) status.catching_up.push_back({run.number, step});
    lowest_step = std::min(lowest_step, step);
  }
  level = status.catching_up.empty();
}

void Lab::State::warn(const std::string& text) {
  const std::lock_guard lock(mutex);
  status.warning = text;
}

void Lab::State::serve(PinnedChange& request) {
  const Trainer* trainer = lock_step.find(request.change.run);
  if (!trainer) return;  // removed since
  const int first = lock_step.runs().front().number;
  request.step = lock_step.find(first)->steps_taken();
  last_served = request.id;
  {
    const std::lock_guard lock(mutex);
    const auto logged = std::ranges::find(changes, request.id, &PinnedChange::id);
    if (logged != changes.end()) logged->step = request.step;  // else a later request to rewind will undo it
  }
  if (request.change.key == kMixtureKey && request.change.run == first)
    lock_step.set_mixture(request.step, std::get<std::string>(request.change.value));
  if (trainer->steps_taken() >= request.step) {
    apply_pending(request.step);  // changes made to the first run at this step come first
    apply(request.change.run, request);
  } else {
    pending[request.change.run].push_back(request);
  }
}

void Lab::State::apply(int run, const PinnedChange& change) {
  lock_step.find(run)->apply(change.change);
  Marker marker = change.marker;
  marker.run = run;  // a twin gets the changes of another
  marker.step = change.step;
  sink.publish(std::move(marker));
}

void Lab::State::apply_pending(std::int64_t step) {
  for (auto& [run, changes] : pending) {
    if (lock_step.find(run)->steps_taken() != step) continue;
    const auto later =
        std::find_if(changes.begin(), changes.end(), [step](const PinnedChange& change) { return change.step > step; });
    for (auto change = changes.begin(); change != later; ++change) apply(run, *change);
    changes.erase(changes.begin(), later);
  }
}

void Lab::State::serve(const CheckpointRequest& request) {
  const std::int64_t step = lock_step.runs().front().trainer.steps_taken();
  std::string text;
  try {
    if (broken) throw std::runtime_error("training failed within a step, so there is no state worth keeping");
    if (!lock_step.level()) throw std::runtime_error("no checkpoint could be written while a run catches up");
    write_checkpoint(request.directory, step, [&](const std::string& folder) {
      std::vector<std::string> names;
      for (const LockStep::Run& run : lock_step.runs()) {
        names.push_back(run.trainer.config().name);
        run.trainer.save(folder + '/' + names.back() + ".safetensors");
      }
      write_run_order(folder, names);
    });
    text = "checkpoint " + request.directory + '/' + std::to_string(step);
  } catch (const std::exception& error) {
    text = error.what();
    warn(text);
  }
  for (const LockStep::Run& run : lock_step.runs()) sink.publish(Marker{run.number, step, "event", text});
}

void Lab::State::serve(const AddRequest& request) {
  std::vector<PinnedChange> to_come;
  {
    const std::lock_guard lock(mutex);
    if (!find(request.number)) return;  // removed since
    for (PinnedChange change : changes) {
      if (change.step == PinnedChange::kNotYet || !is_for(change, request)) continue;
      change.change.run = request.number;
      to_come.push_back(std::move(change));
    }
  }
  try {
    lock_step.add(request.number,
                  request.from ? Trainer::resume(*request.from, request.config) : Trainer(request.config));
    pending[request.number] = std::move(to_come);
    if (!request.text.empty()) sink.publish(Marker{request.number, request.from->steps_taken, "event", request.text});
  } catch (const std::exception& error) {
    sink.remove_run(request.number);
    const std::lock_guard lock(mutex);
    status.warning = "run " + request.config.name + " could not be opened: " + error.what();
    std::erase_if(runs, [&](const OpenRun& run) { return run.number == request.number; });
  }
}

void Lab::State::serve(const RemoveRequest& request) {
  captures.fail_run(request.number, "the run was removed");
  ring.forget_run(request.number);
  lock_step.remove(request.number);
  pending.erase(request.number);
  sink.remove_run(request.number);
}

void Lab::State::serve(const CaptureRequest& request) {
  if (!lock_step.find(request.run)) return request.capture->fail("the run was removed");
  if (broken) return request.capture->fail("training failed within a step, so there is no state to look at");
  captures.add(request.run, request.place, request.capture);
}

// Under the lock, which it releases while it works.
void Lab::State::compute_captures_ahead(std::unique_lock<std::mutex>& lock) {
  const bool paused = !wants_step();
  lock.unlock();
  apply_pending(lock_step.next_step());
  captures.compute_ahead(lock_step, paused);
  lock.lock();
}

// Unlocks while it trains; with several runs a stop takes effect after each of them.
void Lab::State::take_step(std::unique_lock<std::mutex>& lock) {
  const std::int64_t step = lock_step.next_step();
  lock.unlock();
  const auto begin = Clock::now();
  std::string failure;
  int failed_run = 0, taken = 0;
  bool threw = false;
  const auto name_of = [this](int run) { return lock_step.find(run)->config().name; };
  try {
    apply_pending(step);
    keep_due(step);
    captures.join_step(lock_step);
    taken = lock_step.step([&](TelemetryFrame frame) {
      if (loss_is_not_finite(frame) && failure.empty()) {
        failed_run = frame.run;
        failure = "run " + name_of(frame.run) + ": the loss is NaN or infinite at step " + std::to_string(step);
      }
      sink.publish(std::move(frame));
      const std::lock_guard stop_lock(mutex);
      return !stop;
    });
    captures.finish_step(lock_step);
  } catch (const std::exception& error) {
    threw = true;
    captures.fail_all("the step failed");
    failed_run = lock_step.in_step();
    failure = "run " + name_of(failed_run) + ": step " + std::to_string(step) + " failed: " + error.what();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!failure.empty()) sink.publish(Marker{failed_run, step, "event", failure});
  lock.lock();
  broken = threw;
  if (!threw) show_progress();
  const DataConfig& data = runs.front().config.data;
  status.tokens_per_s = static_cast<double>(taken) * static_cast<double>(data.batch) * data.seq / seconds;
  if (failure.empty()) return;
  status.error = failure;
  status.running = false;
  single_steps = 0;
}

Lab::Lab(std::vector<RunConfig> configs, std::string recording_path)
    : Lab(make_trainers(std::move(configs)), std::move(recording_path)) {}

Lab::Lab(std::vector<Trainer> trainers, std::string recording_path)
    : state_(std::make_unique<State>(std::move(trainers), std::move(recording_path))) {
  state_->thread = std::thread([state = state_.get()] { state->main_loop(); });
}

Lab::~Lab() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake.notify_one();
    state_->idle.notify_all();
  }
  state_->thread.join();
  for (const State::Request& request : state_->requests)
    if (const auto* asked_for = std::get_if<State::CaptureRequest>(&request))
      asked_for->capture->fail("the run was closed");
}

std::vector<std::shared_ptr<History>> Lab::histories() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::shared_ptr<History>> histories;
  for (const State::OpenRun& run : state_->runs) histories.push_back(run.history);
  return histories;
}

LabStatus Lab::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

void Lab::run() {
  run_until(kNoLimit);
}

void Lab::run_until(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) return;
  state_->status.error.clear();
  state_->run_before = step;
  state_->status.running = step > state_->lowest_step;
  state_->wake.notify_one();
}

void Lab::pause() {
  const std::lock_guard lock(state_->mutex);
  state_->status.running = false;
  state_->single_steps = 0;
  state_->wake.notify_one();
}

void Lab::step_once() {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) return;
  state_->status.error.clear();
  state_->status.running = false;
  ++state_->single_steps;
  state_->wake.notify_one();
}

void Lab::set_max_steps_per_s(double limit) {
  const std::lock_guard lock(state_->mutex);
  state_->max_steps_per_s = limit;
  state_->ask_locked();
}

int Lab::add_run(RunConfig config) {
  const std::lock_guard lock(state_->mutex);
  const State::OpenRun& first = state_->runs.front();
  state_->require_room();
  if (const std::string problem = lock_step_problem(first.config, config); !problem.empty())
    throw std::invalid_argument(problem);
  require_valid(config);
  State::AddRequest request{.number = state_->next_number,
                            .config = state_->first_config_at_start,
                            .deliberate = {},
                            .like = first.number,
                            .from = nullptr,
                            .changes_before = 0,
                            .text = {}};
  if (state_->first_step > 0) request.from = state_->ring.find(state_->first_step, first.number);
  for (const ConfigDifference& found : difference(first.config, config)) {
    const ConfigField& field = *find_field(found.key);
    if (state_->first_step > 0 && (!field.live || !request.from))
      throw std::invalid_argument("these runs were resumed at step " + std::to_string(state_->first_step) +
                                  ", so that a new run cannot take the steps before: " + found.key +
                                  " can be compared only from the beginning");
    field.set(request.config, field.get(config));
    request.deliberate.insert(found.key);
  }
  if (state_->first_step > 0 && !request.from)
    throw std::invalid_argument("these runs were resumed at step " + std::to_string(state_->first_step) +
                                " and no checkpoint of that step is kept (telemetry.checkpoint_every is 0)");
  request.config.name = config.name;
  return state_->open(std::move(request));
}

// Under the lock.
int Lab::State::open(AddRequest request) {
  request.config.name = unique_name(request.config);
  require_valid(request.config);
  RunConfig now = config_to_come(request);
  const int number = next_number++;
  request.number = number;
  open_run(number, request.config);
  OpenRun& run = runs.back();
  run.config = std::move(now);
  run.first_step = request.from ? request.from->steps_taken : first_step;
  if (status.step > run.first_step) {
    status.catching_up.push_back({number, run.first_step});
    lowest_step = std::min(lowest_step, run.first_step);
    level = false;
  }
  requests.push_back(std::move(request));
  ask_locked();
  return number;
}

void Lab::remove_run(int run) {
  const std::lock_guard lock(state_->mutex);
  const State::OpenRun& open = state_->find_or_throw(run);
  if (&open == &state_->runs.front())
    throw std::invalid_argument("run " + open.config.name + " is the first: all others read its batches");
  std::erase_if(state_->runs, [run](const State::OpenRun& candidate) { return candidate.number == run; });
  state_->requests.push_back(State::RemoveRequest{run});
  state_->ask_locked();
}

void Lab::change(const LiveChange& change) {
  const std::lock_guard lock(state_->mutex);
  const ConfigField* field = find_field(change.key);
  const State::OpenRun& run = state_->find_or_throw(change.run);
  if (field == nullptr) throw std::invalid_argument(change.key + ": no such key");
  if (!field->live) throw std::invalid_argument(change.key + ": cannot be changed while it trains");
  if (std::string message = check_field(*field, change.value); !message.empty())
    throw std::invalid_argument(change.key + ' ' + message);
  const bool shared = change.key == kMixtureKey;
  if (shared) state_->require_domains(std::get<std::string>(change.value));
  RunConfig changed = run.config;
  field->set(changed, change.value);
  require_valid(changed);
  for (State::OpenRun& open : state_->runs)
    if (shared || open.number == change.run) state_->accept({open.number, change.key, change.value}, *field, open);
  state_->ask_locked();
}

void Lab::pin_note(int run, std::int64_t step, std::string text) {
  state_->sink.publish(Marker{run, step, kNoteKind, std::move(text)});
}

RunConfig Lab::config(int run) const {
  const std::lock_guard lock(state_->mutex);
  return state_->find_or_throw(run).config;
}

void Lab::save_checkpoint(std::string directory) {
  const std::lock_guard lock(state_->mutex);
  state_->requests.push_back(State::CheckpointRequest{std::move(directory)});
  state_->ask_locked();
}

std::shared_ptr<const Capture> Lab::capture(int run, const OperandPlace& place) {
  const std::lock_guard lock(state_->mutex);
  state_->find_or_throw(run);
  auto capture = std::make_shared<Capture>();
  state_->requests.push_back(State::CaptureRequest{run, place, capture});
  state_->ask_locked();
  return capture;
}

void Lab::flush() {
  std::unique_lock lock(state_->mutex);
  state_->ask_locked();
  const std::uint64_t round = state_->asked;
  state_->idle.wait(lock, [&] { return state_->done >= round || state_->stop; });
  lock.unlock();
  state_->sink.flush();
}

}  // namespace moescope
