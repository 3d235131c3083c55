#include "core/lab.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

#include "core/checkpoint_folder.h"
#include "core/lock_step.h"
#include "core/pending_captures.h"

namespace moescope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kMixtureKey = "data.mixture";  // the one live key that all runs share
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

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

std::vector<Trainer> make_trainers(std::vector<RunConfig> configs) {
  make_names_unique(configs);
  std::vector<Trainer> trainers;
  for (const RunConfig& config : configs) trainers.emplace_back(config);
  return trainers;
}

// A live change and the step before which it takes effect.
struct PinnedChange {
  std::uint64_t id = 0;  // rises in the order in which they were accepted
  std::int64_t step = kNotYet;
  LiveChange change;
  std::string text;  // of its marker

  static constexpr std::int64_t kNotYet = -1;  // accepted, waits for the step in flight
};

// A probe text would fill the timeline.
std::string shortened(std::string text) {
  constexpr std::size_t kLongest = 48;
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a UTF-8 sequence
  return text.substr(0, end) + "...";
}

void require_valid(const RunConfig& config) {
  if (const auto problems = validate(config); !problems.empty()) throw std::invalid_argument(problems.front().text());
}

// "a/b.checkpoints" for the recording "a/b.moescope".
std::string ring_folder(const std::string& recording_path) {
  if (recording_path.empty()) return {};
  return std::filesystem::path(recording_path).replace_extension(".checkpoints").string();
}

std::string change_text(const ConfigField& field, const RunConfig& before, const ConfigValue& value) {
  const auto shown = [](const ConfigValue& v) {
    std::string text = shortened(to_string(v));
    return text.empty() ? std::string("none") : text;
  };
  return field.key + ' ' + shown(field.get(before)) + " -> " + shown(value);
}

}  // namespace

struct Lab::State {
  explicit State(std::vector<Trainer> trainers, const std::string& recording_path)
      : lock_step(std::move(trainers)), sink(recording_path), ring(ring_folder(recording_path)) {
    for (const LockStep::Run& run : lock_step.runs()) open_run(run.number, run.trainer.config());
    first_config_at_start = runs.front().config;
    first_step = lowest_step = status.step = lock_step.next_step();
    next_number = static_cast<int>(runs.size());
  }

  struct OpenRun {
    int number;
    RunConfig config;  // with all changes that were accepted
    std::shared_ptr<History> history;
    std::int64_t first_step = 0;
  };
  struct Note {
    std::string text;
  };
  struct CheckpointRequest {
    std::string directory;
  };
  struct AddRequest {
    int number;
    RunConfig config;                  // at its first step
    std::set<std::string> deliberate;  // keys in which it is to differ from the run whose changes it gets
    int like = 0;                      // that run
    CheckpointRing::Snapshot from;     // nullptr: the beginning
    std::uint64_t changes_before = 0;  // with the id of the last change that is in `config`
    std::string text;                  // of a marker; empty: none
  };
  struct KeepRequest {};
  struct RewindRequest {
    std::int64_t step;
    std::map<int, CheckpointRing::Snapshot> runs;
  };
  struct RemoveRequest {
    int number;
  };
  struct CaptureRequest {
    int run;
    OperandPlace place;
    std::shared_ptr<Capture> capture;
  };
  using Request = std::variant<PinnedChange, Note, CheckpointRequest, AddRequest, RemoveRequest, CaptureRequest,
                               KeepRequest, RewindRequest>;

  // --- touched by the training thread only ---
  LockStep lock_step;
  std::map<int, std::vector<PinnedChange>> pending;  // by run, for steps that it has not reached
  Clock::time_point next_due{};                      // of the speed limit
  PendingCaptures captures;
  std::uint64_t last_served = 0;  // id of a change

  FrameSink sink;       // after what may throw: it creates a file; its members may be called from any thread
  CheckpointRing ring;  // the same

  // --- shared, under `mutex` ---
  mutable std::mutex mutex;
  std::condition_variable wake;  // the training thread: something was asked
  std::condition_variable idle;  // flush(): the work that was asked is done
  bool stop = false;
  bool broken = false;  // an exception left a trainer in mid-step: no further step; written by the training thread only
  bool level = true;    // no run catches up
  std::int64_t first_step = 0;   // at which the lab began
  std::int64_t lowest_step = 0;  // next step to take, by any run
  std::int64_t run_before = 0;   // while running: pause before taking this step
  int single_steps = 0;
  double max_steps_per_s = 0;
  std::vector<OpenRun> runs;
  int next_number = 0;
  RunConfig first_config_at_start;
  std::vector<PinnedChange> changes;                     // all that were made and not taken back by a rewind
  std::uint64_t last_accepted = 0;                       // id of a change
  std::map<std::int64_t, std::uint64_t> changes_before;  // by kept checkpoint: the last change before it
  std::deque<Request> requests;
  std::uint64_t asked = 0, done = 0;  // rounds of work between steps
  LabStatus status;

  std::thread thread;  // last: everything above is ready when it starts

  void main_loop();
  bool wait_for_work(std::unique_lock<std::mutex>& lock);
  bool wants_step() const { return !broken && (single_steps > 0 || status.running); }
  bool is_limited() const { return max_steps_per_s > 0 && single_steps == 0 && level; }
  void do_requests(std::unique_lock<std::mutex>& lock);
  void serve(PinnedChange& request);
  void serve(const Note& request);
  void serve(const CheckpointRequest& request);
  void serve(const AddRequest& request);
  void serve(const RemoveRequest& request);
  void serve(const CaptureRequest& request);
  void serve(const KeepRequest& request);
  void serve(const RewindRequest& request);
  void keep(const LockStep::Run& run, bool by_hand);
  void keep_due(std::int64_t step);
  void compute_captures_ahead(std::unique_lock<std::mutex>& lock);
  void apply_pending(std::int64_t step);
  void apply(int run, const PinnedChange& change);
  void take_step(std::unique_lock<std::mutex>& lock);
  void show_progress();
  void warn(const std::string& text);

  void open_run(int number, const RunConfig& config) {
    runs.push_back({number, config, sink.add_run(run_info(config, number, lock_step.data().domains()))});
  }
  OpenRun* find(int number) {
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const OpenRun& open) { return open.number == number; });
    return run == runs.end() ? nullptr : &*run;
  }
  OpenRun& find_or_throw(int number) {
    if (OpenRun* run = find(number)) return *run;
    throw std::invalid_argument("there is no run number " + std::to_string(number));
  }
  // data.mixture in the words of the data that are open; their names never change.
  void require_domains(const std::string& mixture) const {
    try {
      mixture_weights(mixture, lock_step.data().domains());
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string(kMixtureKey) + ": " + error.what());
    }
  }
  // A change that was found good.
  void accept(LiveChange change, const ConfigField& field, OpenRun& run) {
    std::string text = change_text(field, run.config, change.value);
    if (change.key == kMixtureKey && runs.size() > 1) text += " (for all runs, which read the same batches)";
    field.set(run.config, change.value);
    changes.push_back({++last_accepted, PinnedChange::kNotYet, std::move(change), std::move(text)});
    requests.push_back(changes.back());
  }
  std::string unique_name(RunConfig config) const {
    std::vector<RunConfig> named;
    for (const OpenRun& run : runs) named.push_back(run.config);
    named.push_back(std::move(config));
    make_names_unique(named);
    return named.back().name;
  }
  void require_room() const {
    if (runs.size() >= kMaxRuns)
      throw std::invalid_argument(std::to_string(kMaxRuns) +
                                  " runs are open, more cannot be compared: close one first");
  }
  // `config` with the changes that a run with this request will get; throws when one of them does not fit.
  RunConfig config_to_come(const AddRequest& request) const {
    RunConfig now = request.config;
    for (const PinnedChange& made : changes) {
      if (!is_for(made, request)) continue;
      find_field(made.change.key)->set(now, made.change.value);
      require_valid(now);
    }
    return now;
  }
  static bool is_for(const PinnedChange& made, const AddRequest& request) {
    return made.change.run == request.like && made.id > request.changes_before &&
           request.deliberate.count(made.change.key) == 0;
  }
  int open(AddRequest request);
  void ask_locked() {
    ++asked;
    wake.notify_one();
  }
};

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
  std::string recording_error = sink.error();
  lock.lock();
  show_progress();
  if (!recording_error.empty()) status.warning = std::move(recording_error);
  done = round;
  idle.notify_all();
}

// Under the lock. A run whose request waits yet stands at its first step.
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
    if (logged != changes.end()) logged->step = request.step;  // else a rewind, asked for since, will take it back
  }
  if (request.change.key == kMixtureKey && request.change.run == first)
    lock_step.set_mixture(request.step, std::get<std::string>(request.change.value));
  if (trainer->steps_taken() >= request.step) {
    apply_pending(request.step);  // what was made to the first run at this step comes before
    apply(request.change.run, request);
  } else {
    pending[request.change.run].push_back(request);
  }
}

void Lab::State::apply(int run, const PinnedChange& change) {
  lock_step.find(run)->apply(change.change);
  sink.publish(Marker{run, change.step, "change", change.text});
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

void Lab::State::serve(const Note& request) {
  const std::int64_t step = lock_step.runs().front().trainer.steps_taken();
  for (const LockStep::Run& run : lock_step.runs()) sink.publish(Marker{run.number, step, "note", request.text});
}

void Lab::State::serve(const CheckpointRequest& request) {
  const std::int64_t step = lock_step.runs().front().trainer.steps_taken();
  std::string text;
  try {
    if (broken) throw std::runtime_error("training failed in mid-step, so there is no state worth keeping");
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

void Lab::State::keep(const LockStep::Run& run, bool by_hand) {
  ring.keep(run.number, run.trainer.snapshot(), by_hand,
            lock_step.runs().front().trainer.config().telemetry.checkpoints_kept);
}

// Before `step` is taken. A run that catches up is kept where the others were.
void Lab::State::keep_due(std::int64_t step) {
  const int every = lock_step.runs().front().trainer.config().telemetry.checkpoint_every;
  const bool level_now = lock_step.level();
  const bool due = every > 0 && (step % every == 0 || ring.list().empty());
  if (level_now ? !due || ring.holds(step) : !ring.holds(step)) return;
  for (const LockStep::Run& run : lock_step.runs())
    if (run.trainer.steps_taken() == step && !ring.find(step, run.number)) keep(run, false);
  if (!level_now) return;
  const std::lock_guard lock(mutex);
  changes_before[step] = last_served;
}

void Lab::State::serve(const KeepRequest&) {
  if (broken || !lock_step.level())
    return warn(broken ? "no checkpoint: training failed in mid-step" : "no checkpoint while a run catches up");
  const std::int64_t step = lock_step.next_step();
  for (const LockStep::Run& run : lock_step.runs()) {
    keep(run, true);
    sink.publish(Marker{run.number, step, "event", "checkpoint kept"});
  }
  const std::lock_guard lock(mutex);
  changes_before[step] = last_served;
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

void Lab::State::serve(const RemoveRequest& request) {
  captures.fail_run(request.number, "the run was removed");
  ring.forget_run(request.number);
  lock_step.remove(request.number);
  pending.erase(request.number);
  sink.remove_run(request.number);
}

void Lab::State::serve(const CaptureRequest& request) {
  if (!lock_step.find(request.run)) return request.capture->fail("the run was removed");
  if (broken) return request.capture->fail("training failed in mid-step, so there is no state to look at");
  captures.add(request.run, request.place, request.capture);
}

// Under the lock, which it lets go meanwhile.
void Lab::State::compute_captures_ahead(std::unique_lock<std::mutex>& lock) {
  const bool paused = !wants_step();
  lock.unlock();
  apply_pending(lock_step.next_step());
  captures.compute_ahead(lock_step, paused);
  lock.lock();
}

// Unlocks while it trains; with several runs a stop is heeded after each of them.
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
      if (is_lost(frame) && failure.empty()) {
        failed_run = frame.run;
        failure = "run " + name_of(frame.run) + ": the loss is no number any more at step " + std::to_string(step);
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

std::vector<KeptCheckpoint> Lab::checkpoints() const {
  return state_->ring.list();
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
                                  std::to_string(step) + ": it began later; close it, or go back less far");
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
    request.text += ", " + change_text(*field, request.config, change.value);
    field->set(request.config, change.value);
    request.deliberate.insert(change.key);
  }
  request.config.name = twin_name(request.from->config, request.config);
  return s.open(std::move(request));
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

void Lab::note(std::string text) {
  const std::lock_guard lock(state_->mutex);
  state_->requests.push_back(State::Note{std::move(text)});
  state_->ask_locked();
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
