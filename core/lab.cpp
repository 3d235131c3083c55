#include "core/lab.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/checkpoint_folder.h"
#include "core/dataset.h"
#include "core/run_clock.h"

namespace moescope {
namespace {

using Clock = std::chrono::steady_clock;

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

std::unique_ptr<Dataset> open_common_dataset(const std::vector<Trainer>& trainers) {
  if (trainers.empty() || trainers.size() > kMaxRuns)
    throw std::runtime_error("a lab holds " + std::to_string(trainers.size()) + " runs, allowed are 1 to " +
                             std::to_string(kMaxRuns));
  const RunConfig& first = trainers.front().config();
  for (const Trainer& trainer : trainers) {
    const DataConfig& data = trainer.config().data;
    if (data.path != first.data.path || data.batch != first.data.batch || data.seq != first.data.seq)
      throw std::runtime_error("run " + trainer.config().name + " and run " + first.name +
                               " differ in [data]: runs in lock-step read the same batches");
    if (trainer.steps_taken() != trainers.front().steps_taken())
      throw std::runtime_error("run " + trainer.config().name + " and run " + first.name +
                               " are at different steps: runs in lock-step take each together");
  }
  return open_dataset(first.data, first.seed);
}

}  // namespace

struct Lab::State {
  explicit State(std::vector<Trainer> the_trainers, std::string recording_path)
      : trainers(std::move(the_trainers)), data(open_common_dataset(trainers)), sink(std::move(recording_path)) {
    clocks.resize(trainers.size());
    for (std::size_t run = 0; run < trainers.size(); ++run) {
      configs.push_back(trainers[run].config());
      histories.push_back(sink.add_run(run_info(configs[run], static_cast<int>(run))));
    }
    status.step = trainers.front().steps_taken();
  }

  // --- touched by the training thread only ---
  std::vector<Trainer> trainers;
  std::unique_ptr<Dataset> data;
  FrameSink sink;  // after what may throw: it creates a file
  std::vector<RunClock> clocks;
  Clock::time_point next_due{};  // of the speed limit

  std::vector<std::shared_ptr<History>> histories;  // constant

  // --- shared, under `mutex` ---
  mutable std::mutex mutex;
  std::condition_variable wake;  // the training thread: something was asked
  std::condition_variable idle;  // flush(): the work that was asked is done
  bool stop = false;
  bool broken = false;  // an exception left a trainer in mid-step: no further step; written by the training thread only
  std::int64_t run_before = 0;  // while running: pause before taking this step
  int single_steps = 0;
  double max_steps_per_s = 0;
  std::vector<RunConfig> configs;
  std::deque<LiveChange> changes;
  std::vector<Marker> markers;  // their step is that before which they are published
  std::deque<std::string> checkpoints;
  std::uint64_t asked = 0, done = 0;  // rounds of work between steps
  LabStatus status;

  std::thread thread;  // last: everything above is ready when it starts

  void main_loop();
  bool wait_for_work(std::unique_lock<std::mutex>& lock);
  bool wants_step() const { return !broken && (single_steps > 0 || status.running); }
  void do_requests(std::unique_lock<std::mutex>& lock);
  void write_requested_checkpoint(const std::string& directory);
  void take_step(std::unique_lock<std::mutex>& lock);
  void fail(const std::string& reason, int run);
  void ask_locked() {
    ++asked;
    wake.notify_one();
  }
};

// Returns with the lock held when there is something to do; false: stop.
bool Lab::State::wait_for_work(std::unique_lock<std::mutex>& lock) {
  while (!stop && asked == done) {
    if (!wants_step()) {
      wake.wait(lock);
    } else if (max_steps_per_s <= 0 || single_steps > 0 || Clock::now() >= next_due) {
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
    if (status.running && status.step >= run_before) status.running = false;
    if (stop || !wants_step()) continue;
    const bool limited = max_steps_per_s > 0 && single_steps == 0;
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
  const auto taken_changes = std::exchange(changes, {});
  auto taken_markers = std::exchange(markers, {});
  const auto taken_checkpoints = std::exchange(checkpoints, {});
  const std::int64_t step = status.step;
  lock.unlock();
  for (const LiveChange& change : taken_changes) trainers[static_cast<std::size_t>(change.run)].apply(change);
  for (Marker& marker : taken_markers) {
    marker.step = step;
    sink.publish(std::move(marker));
  }
  for (const std::string& directory : taken_checkpoints) write_requested_checkpoint(directory);
  std::string recording_error = sink.error();
  lock.lock();
  if (!recording_error.empty()) status.warning = std::move(recording_error);
  done = round;
  idle.notify_all();
}

void Lab::State::write_requested_checkpoint(const std::string& directory) {
  const std::int64_t step = trainers.front().steps_taken();
  std::string text;
  try {
    if (broken) throw std::runtime_error("training failed in mid-step, so there is no state worth keeping");
    write_checkpoint(directory, step, [&](const std::string& folder) {
      for (const Trainer& trainer : trainers) trainer.save(folder + '/' + trainer.config().name + ".safetensors");
    });
    text = "checkpoint " + directory + '/' + std::to_string(step);
  } catch (const std::exception& error) {
    text = error.what();
    const std::lock_guard lock(mutex);
    status.warning = text;
  }
  for (std::size_t run = 0; run < trainers.size(); ++run)
    sink.publish(Marker{static_cast<int>(run), step, "event", text});
}

// Unlocks while it trains; with several runs a stop is heeded after each of them.
void Lab::State::take_step(std::unique_lock<std::mutex>& lock) {
  const std::int64_t step = status.step;
  lock.unlock();
  const auto begin = Clock::now();
  std::string failure;
  int failed_run = 0;
  bool stopped = false, threw = false;
  try {
    const Batch batch = data->batch(step);
    for (std::size_t run = 0; run < trainers.size() && !stopped; ++run) {
      failed_run = static_cast<int>(run);
      TelemetryFrame frame = clocks[run].step(trainers[run], batch, failed_run);
      if (is_lost(frame) && failure.empty())
        failure =
            "run " + trainers[run].config().name + ": the loss is no number any more at step " + std::to_string(step);
      sink.publish(std::move(frame));
      const std::lock_guard stop_lock(mutex);
      stopped = stop;
    }
  } catch (const std::exception& error) {
    threw = true;
    failure = "run " + trainers[static_cast<std::size_t>(failed_run)].config().name + ": step " + std::to_string(step) +
              " failed: " + error.what();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!failure.empty()) sink.publish(Marker{failed_run, step, "event", failure});
  lock.lock();
  broken = threw;
  if (!threw) status.step = step + 1;
  status.tokens_per_s = static_cast<double>(trainers.size()) *
                        static_cast<double>(trainers.front().config().data.batch) * trainers.front().config().data.seq /
                        seconds;
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
}

std::vector<std::shared_ptr<History>> Lab::histories() const {
  return state_->histories;
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
  state_->status.running = step > state_->status.step;
  state_->wake.notify_one();
}

void Lab::pause() {
  const std::lock_guard lock(state_->mutex);
  state_->status.running = false;
  state_->single_steps = 0;
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

void Lab::change(const LiveChange& change) {
  const std::lock_guard lock(state_->mutex);
  const ConfigField* field = find_field(change.key);
  if (change.run < 0 || static_cast<std::size_t>(change.run) >= state_->configs.size())
    throw std::invalid_argument("there is no run number " + std::to_string(change.run));
  if (field == nullptr) throw std::invalid_argument(change.key + ": no such key");
  if (!field->live) throw std::invalid_argument(change.key + ": cannot be changed while it trains");
  if (std::string message = check_field(*field, change.value); !message.empty())
    throw std::invalid_argument(change.key + ' ' + message);
  RunConfig changed = state_->configs[static_cast<std::size_t>(change.run)];
  const std::string before = to_string(field->get(changed));
  field->set(changed, change.value);
  if (const auto problems = validate(changed); !problems.empty()) throw std::invalid_argument(problems.front().text());
  state_->configs[static_cast<std::size_t>(change.run)] = std::move(changed);
  state_->changes.push_back(change);
  state_->markers.push_back({change.run, 0, "change", change.key + ' ' + before + " -> " + to_string(change.value)});
  state_->ask_locked();
}

void Lab::note(std::string text) {
  const std::lock_guard lock(state_->mutex);
  for (std::size_t run = 0; run < state_->configs.size(); ++run)
    state_->markers.push_back({static_cast<int>(run), 0, "note", text});
  state_->ask_locked();
}

RunConfig Lab::config(int run) const {
  const std::lock_guard lock(state_->mutex);
  return state_->configs.at(static_cast<std::size_t>(run));
}

void Lab::save_checkpoint(std::string directory) {
  const std::lock_guard lock(state_->mutex);
  state_->checkpoints.push_back(std::move(directory));
  state_->ask_locked();
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
