#include "core/training/engine/run_queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/config/config_rules.h"
#include "core/config/config_toml.h"
#include "core/files/input_file.h"
#include "core/files/text/toml_section.h"
#include "core/files/whole_file.h"
#include "core/numerics/threads.h"
#include "core/training/engine/lock_step.h"

namespace moescope {

// Observer of a group in training, which updates the queue and passes the calls on to the caller's observer.
class RunQueue::Observer : public EngineObserver {
 public:
  Observer(RunQueue& queue, std::size_t place, const GoOn& go_on, std::unique_ptr<EngineObserver> watcher)
      : queue_(queue), place_(place), go_on_(go_on), watcher_(std::move(watcher)) {}

  void frame(const TelemetryFrame& frame) override {
    if (frame.run == 0 && !queue_.is_of_single_runs()) queue_.baseline_.check(frame);
    if (watcher_) watcher_->frame(frame);
  }
  void twin_lost(const Trouble& trouble) override {
    queue_.warn(trouble.text() + "; the others go on without it");
    if (watcher_) watcher_->twin_lost(trouble);
  }
  void after_step(Engine& engine) override {
    if (const std::string problem = engine.sink().error(); !problem.empty()) {
      if (queue_.is_of_single_runs()) throw std::runtime_error(problem);
      queue_.warn(problem + "; training goes on without this recording");
    }
    if (watcher_) watcher_->after_step(engine);
    queue_.count_step(place_, engine.next_step());
    queue_.tell(go_on_);
  }
  void ended(Engine& engine) override {
    if (watcher_) watcher_->ended(engine);
  }

 private:
  RunQueue& queue_;
  const std::size_t place_;
  const GoOn& go_on_;
  const std::unique_ptr<EngineObserver> watcher_;
};

RunQueue::RunQueue(std::vector<RunGroup> groups, std::int64_t steps, std::string recording)
    : steps_(steps), recording_(std::move(recording)), groups_(std::move(groups)), steps_taken_(groups_.size()) {}

std::unique_ptr<RunQueue> RunQueue::take_up(const std::string& recording, const std::function<bool(double)>& go_on) {
  const QueueState state = load_queue(queue_file_of(recording));
  auto queue = std::make_unique<RunQueue>(candidate_groups(state.runs, recording), state.steps, recording);
  const std::size_t groups = queue->groups_.size();
  for (std::size_t g = 0; g < groups; ++g) {
    if (go_on && !go_on(g / static_cast<double>(groups))) return nullptr;
    queue->read_finished(g);
  }
  return queue;
}

RunQueue::~RunQueue() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

bool RunQueue::is_of_single_runs() const {
  return std::ranges::all_of(groups_, [](const RunGroup& group) { return group.runs.size() == 1; });
}

bool RunQueue::read_finished(std::size_t group) {
  Baseline own_baseline;
  Baseline& baseline = is_of_single_runs() ? own_baseline : baseline_;
  std::vector<HistoryPtr> histories = finished_group(groups_[group], steps_, baseline);
  const std::lock_guard lock(mutex_);
  groups_[group].histories = std::move(histories);
  groups_[group].finished = !groups_[group].histories.empty();
  return groups_[group].finished;
}

void RunQueue::start() {
  if (const QueueStatus current = status(); current.running || current.done) return;
  if (thread_.joinable()) thread_.join();
  begin();
  thread_ = std::thread([this] { train(); });
}

void RunQueue::begin() {
  cancelled_ = false;
  const std::lock_guard lock(mutex_);
  running_ = true;
  next_ = 0;
  error_.clear();
  warning_.clear();
  after_first_.reset();
  run_steps_ = seconds_ = 0;
}

bool RunQueue::train(const GoOn& go_on, const ObserverOf& observer_of) {
  if (!status().running) begin();
  save();
  int workers = is_of_single_runs() ? std::min(kMaxRuns, to_int(groups_.size()) - status().finished) : 1;
  while (workers > 1 && threads_per_job(workers) == 0) --workers;
  if (workers > 1)
    side_by_side(workers, [&](int) { work(go_on, observer_of); });
  else
    work(go_on, observer_of);
  const std::lock_guard lock(mutex_);
  running_ = false;
  return std::ranges::all_of(groups_, &RunGroup::finished);
}

void RunQueue::work(const GoOn& go_on, const ObserverOf& observer_of) {
  while (const std::optional<std::size_t> place = take()) {
    try {
      train_group(*place, go_on, observer_of);
    } catch (const std::exception& problem) {
      leave(*place, false);
      fail(*place, problem.what());
    }
  }
}

std::optional<std::size_t> RunQueue::take() {
  const std::lock_guard lock(mutex_);
  while (next_ < groups_.size() && groups_[next_].finished) ++next_;
  if (cancelled_ || next_ == groups_.size()) return std::nullopt;
  return next_++;
}

void RunQueue::train_group(std::size_t place, const GoOn& go_on, const ObserverOf& observer_of) {
  const std::vector<RunConfig>& configs = groups_[place].runs;  // not changed by any thread
  Engine engine({configs.begin(), configs.end()},
                {.recording = groups_[place].recording, .array_bytes = kQueueArrayBytes, .twins_end_alone = true});
  {
    const std::lock_guard lock(mutex_);
    groups_[place].histories = engine.histories();
  }
  Observer observer(*this, place, go_on, observer_of ? observer_of(engine, place) : nullptr);
  engine.train([&] { return !cancelled_ && engine.next_step() < steps_ && !engine.trouble(); }, observer);
  engine.sink().flush();
  require_success(place, engine);
  leave(place, engine.trouble() || engine.next_step() == steps_);
  save();
  tell(go_on);
}

// Throws std::runtime_error if the group has failed. A single run may end with a NaN or infinite loss, which is a valid
// outcome.
void RunQueue::require_success(std::size_t place, Engine& engine) const {
  const bool single = groups_[place].runs.size() == 1;
  if (const std::string problem = engine.sink().error(); single && !problem.empty()) throw std::runtime_error(problem);
  const std::optional<Trouble>& trouble = engine.trouble();
  if (!trouble || (single && !trouble->within_step)) return;
  throw std::runtime_error(trouble->within_step
                               ? trouble->reason
                               : trouble->text() + ", so that nothing is left to compare the candidates with");
}

// Ends the training of a group. Discards the histories of an unfinished group, because its losses must not be compared
// with those of finished groups.
void RunQueue::leave(std::size_t place, bool finished) {
  const std::lock_guard lock(mutex_);
  groups_[place].finished = finished;
  steps_taken_[place] = 0;
  if (!finished) groups_[place].histories.clear();
}

void RunQueue::count_step(std::size_t place, std::int64_t steps_taken) {
  const auto time = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  steps_taken_[place] = steps_taken;
  if (!after_first_) {
    after_first_ = time;
    return;
  }
  run_steps_ += groups_[place].runs.size();
  seconds_ = std::chrono::duration<double>(time - *after_first_).count();
}

void RunQueue::tell(const GoOn& go_on) {
  const std::lock_guard lock(telling_);
  if (go_on && !go_on(status())) cancel();
}

void RunQueue::fail(std::size_t place, const std::string& reason) {
  cancel();
  const std::lock_guard lock(mutex_);
  const std::vector<RunConfig>& runs = groups_[place].runs;
  if (error_.empty())
    error_ = (runs.size() == 1 ? runs.front().name : fmt::format("group {}", place + 1)) + ": " + reason;
}

void RunQueue::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  warning_ = text;
}

// Training continues if the file cannot be written.
void RunQueue::save() {
  if (recording_.empty()) return;
  QueueState state{{groups_.front().runs.front()}, steps_, status().finished};
  for (const RunGroup& group : groups_) state.runs.insert(state.runs.end(), group.runs.begin() + 1, group.runs.end());
  try {
    save_queue(queue_file_of(recording_), state);
  } catch (const std::runtime_error& problem) {
    warn(std::string(problem.what()) + "; these candidates cannot be continued after a restart");
  }
}

QueueStatus RunQueue::status() const {
  const std::lock_guard lock(mutex_);
  QueueStatus current;
  double all = 0, done = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const double runs = groups_[g].runs.size();
    all += runs * steps_;
    done += runs * (groups_[g].finished ? steps_ : steps_taken_[g]);
    current.finished += groups_[g].finished ? 1 : 0;
  }
  const auto waits = std::ranges::find(groups_, false, &RunGroup::finished);
  current.running = running_;
  current.done = waits == groups_.end();
  current.group = to_int(waits - groups_.begin()) - (current.done ? 1 : 0);
  current.step = current.done ? 0 : steps_taken_[current.group];
  current.share = all > 0 ? done / all : 1;
  if (running_ && run_steps_ > 0) current.seconds_left = (all - done) * seconds_ / run_steps_;
  current.error = error_;
  current.warning = warning_;
  return current;
}

std::string RunQueue::kernels() const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(groups_, true, &RunGroup::finished);
  return found == groups_.end() ? "" : found->histories.front()->info().kernels;
}

std::vector<RunGroup> RunQueue::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxQueueBytes = std::uint64_t{4} << 20;  // a config takes 4 kB

std::int64_t required_integer(TomlSection& file, const char* key, std::int64_t min, std::int64_t max) {
  file.require(key);
  return file.integer(key, min, min, max);
}

void require_one_queue(TomlSection& file, const std::vector<RunConfig>& runs) {
  if (runs.size() < 2 || runs.size() > 1 + kMaxCandidates)
    return file.problem(
        "run", fmt::format("there are {}; allowed: run A and 1 to {} candidates", runs.size(), kMaxCandidates));
  std::set<std::string> names;
  for (const RunConfig& run : runs) {
    if (!names.insert(run.name).second) file.problem("run", "two runs are named " + run.name);
    if (const std::string problem = lock_step_problem(runs.front(), run); !problem.empty())
      file.problem("run", problem);
  }
}

}  // namespace

std::string queue_file_of(const std::string& recording) {
  return fs::path(recording).replace_extension(kQueueSuffix).string();
}

std::string recording_of_queue(const std::string& queue_file) {
  return fs::path(queue_file).replace_extension(".moescope").string();
}

std::string queue_file_beside(const std::string& group_recording) {
  const fs::path path(group_recording);
  const std::string stem = path.stem().string();
  const std::size_t dash = stem.rfind('-');
  const std::string number = dash == std::string::npos ? "" : stem.substr(dash + 1);
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return {};
  const std::string queue = (path.parent_path() / (stem.substr(0, dash) + kQueueSuffix)).string();
  return fs::is_regular_file(queue) ? queue : std::string();
}

QueueState parse_queue(std::string_view text, std::string_view file_name) {
  QueueState state;
  read_valid_toml(text, file_name, [&](TomlSection& file) {
    state.steps = required_integer(file, "steps", 1, kMaxGroupSteps);
    state.finished = to_int(required_integer(file, "finished_groups", 0, kMaxCandidates));
    file.for_each_section("run", [&](TomlSection& run) { state.runs.push_back(read_config(run)); });
    if (file.problems().found.empty()) require_one_queue(file, state.runs);
  });
  return state;
}

QueueState load_queue(const std::string& path) {
  return parse_queue(read_file(path, kMaxQueueBytes, "queue of candidates"), path);
}

void save_queue(const std::string& path, const QueueState& state) {
  std::string text =
      fmt::format("# Queue of candidates of MoEScope\nsteps = {}\nfinished_groups = {}\n", state.steps, state.finished);
  for (const RunConfig& run : state.runs) {
    text += "\n[[run]]\n";
    for (const ConfigField& field : config_fields())
      if (!field.derived) text += fmt::format("{} = {}\n", field.key, toml_value(field.get(run)));
  }
  write_whole_file(path, text);
}

}  // namespace moescope
