#include "core/training/engine/queue_training.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>

#include "core/recording/frame_sink.h"
#include "core/training/engine/lock_step.h"
#include "core/training/engine/queue_file.h"

namespace moescope {
namespace {

double steps_of_all_runs(const std::vector<CandidateGroup>& groups, const std::vector<bool>& finished,
                         std::int64_t steps, bool those_finished) {
  double sum = 0;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (finished[g] == those_finished) sum += static_cast<double>(groups[g].runs.size()) * static_cast<double>(steps);
  return sum;
}

std::string lost_text(const std::string& run, std::int64_t step) {
  return run + ": the loss is NaN or infinite at step " + std::to_string(step);
}

}  // namespace

QueueTraining::QueueTraining(std::vector<RunConfig> runs, std::int64_t steps, std::string recording, Baseline baseline)
    : steps_(steps), recording_(std::move(recording)), baseline_(std::move(baseline)) {
  for (std::vector<RunConfig>& group : candidate_groups(runs)) groups_.push_back({std::move(group)});
  finished_.resize(groups_.size());
}

std::unique_ptr<QueueTraining> QueueTraining::take_up(const std::string& recording,
                                                      const std::function<bool(double)>& go_on) {
  QueueState state = load_queue(queue_file_of(recording));
  auto queue = std::make_unique<QueueTraining>(std::move(state.runs), state.steps, recording);
  for (std::size_t g = 0; g < queue->groups_.size(); ++g) {
    if (go_on && !go_on(static_cast<double>(g) / static_cast<double>(queue->groups_.size()))) return nullptr;
    CandidateGroup& group = queue->groups_[g];
    group.histories =
        finished_group(path_of_group(recording, static_cast<int>(g) + 1), group.runs, state.steps, queue->baseline_);
    queue->finished_[g] = !group.histories.empty();
  }
  queue->settle();
  return queue;
}

QueueTraining::~QueueTraining() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

void QueueTraining::start() {
  {
    const std::lock_guard lock(mutex_);
    if (status_.running || status_.done) return;
  }
  if (thread_.joinable()) thread_.join();
  cancelled_ = false;
  {
    const std::lock_guard lock(mutex_);
    status_ = {};
    status_.running = true;
    status_.group = static_cast<int>(first_waiting());
  }
  thread_ = std::thread([this] { train_all(); });
}

void QueueTraining::cancel() {
  cancelled_ = true;
}

QueueStatus QueueTraining::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::vector<CandidateGroup> QueueTraining::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

std::size_t QueueTraining::first_waiting() const {
  std::size_t place = 0;
  while (place < finished_.size() && finished_[place]) ++place;
  return place;
}

std::string QueueTraining::kernels() const {
  const std::lock_guard lock(mutex_);
  const auto done = std::ranges::find(finished_, true);
  return done == finished_.end()
             ? ""
             : groups_[static_cast<std::size_t>(done - finished_.begin())].histories.front()->info().kernels;
}

// The training goes on without it.
void QueueTraining::save() {
  if (recording_.empty()) return;
  QueueState state{{groups_.front().runs.front()}, steps_};
  for (const CandidateGroup& group : groups_)
    state.runs.insert(state.runs.end(), group.runs.begin() + 1, group.runs.end());
  state.finished = static_cast<int>(std::ranges::count(finished_, true));
  try {
    save_queue(queue_file_of(recording_), state);
  } catch (const std::runtime_error& problem) {
    const std::lock_guard lock(mutex_);
    status_.warning = std::string(problem.what()) + "; these candidates cannot be continued after a restart";
  }
}

void QueueTraining::train_all() {
  save();
  std::string error;
  for (std::size_t place = 0; place < groups_.size() && !cancelled_; ++place) {
    if (finished_[place]) continue;
    bool whole = false;
    try {
      whole = train(place);
    } catch (const std::exception& problem) {
      error = "group " + std::to_string(place + 1) + ": " + problem.what();
    }
    {
      const std::lock_guard lock(mutex_);
      // Losses of half a group would stand beside those of whole ones.
      if (!whole) groups_[place].histories.clear();
      finished_[place] = whole;
    }
    if (!whole) break;
    save();
  }
  const std::lock_guard lock(mutex_);
  status_.error = std::move(error);
  settle();
}

void QueueTraining::settle() {
  status_.running = false;
  status_.seconds_left = kNoValue;
  status_.step = 0;
  const std::size_t next = first_waiting();
  status_.done = next == groups_.size();
  status_.group = static_cast<int>(status_.done ? next - 1 : next);
  const double before = steps_of_all_runs(groups_, finished_, steps_, true);
  status_.share = before / (before + steps_of_all_runs(groups_, finished_, steps_, false));
}

bool QueueTraining::train(std::size_t place) {
  show_step(place, 0, 0, 0);
  const std::vector<RunConfig> configs = groups_[place].runs;  // which nobody changes
  LockStep lock_step({configs.begin(), configs.end()});
  FrameSink sink(path_of_group(recording_, static_cast<int>(place) + 1), kQueueArrayBytes);
  std::vector<HistoryPtr> histories;
  for (const LockStep::Run& run : lock_step.runs())
    histories.push_back(sink.add_run(run_info(run.trainer.config(), run.number, lock_step.data().domains())));
  {
    const std::lock_guard lock(mutex_);
    groups_[place].histories = histories;
  }
  using Clock = std::chrono::steady_clock;
  double run_steps = 0;
  Clock::time_point after_first{};
  for (std::int64_t step = 0; step < steps_; ++step) {
    if (cancelled_) return false;
    std::vector<int> lost;
    const auto runs = static_cast<double>(lock_step.runs().size());
    lock_step.step([&](TelemetryFrame frame) {
      if (frame.run == 0) baseline_.check(frame);
      if (loss_is_not_finite(frame)) lost.push_back(frame.run);
      sink.publish(std::move(frame));
      return true;
    });
    for (const int run : lost) {
      const std::string text = lost_text(configs[static_cast<std::size_t>(run)].name, step);
      sink.publish(Marker{run, step, "event", "the loss is NaN or infinite"});
      if (run == 0) throw std::runtime_error(text + ", and with it what the candidates are compared with");
      lock_step.remove(run);  // the others go on without it
      const std::lock_guard lock(mutex_);
      status_.warning = text + "; the others go on without it";
    }
    if (step == 0)
      after_first = Clock::now();  // the first one fetches memory and code
    else
      run_steps += runs;
    show_step(place, step + 1, run_steps, std::chrono::duration<double>(Clock::now() - after_first).count());
    if (std::string problem = sink.error(); !problem.empty()) {
      const std::lock_guard lock(mutex_);
      status_.warning = problem + "; training goes on without this recording";
    }
  }
  sink.flush();
  return true;
}

// `run_steps` of this group took `seconds`.
void QueueTraining::show_step(std::size_t place, std::int64_t taken, double run_steps, double seconds) {
  const std::lock_guard lock(mutex_);
  const double before = steps_of_all_runs(groups_, finished_, steps_, true);
  const double all = before + steps_of_all_runs(groups_, finished_, steps_, false);
  const double done = before + static_cast<double>(groups_[place].runs.size()) * static_cast<double>(taken);
  status_.group = static_cast<int>(place);
  status_.step = taken;
  status_.share = done / all;
  if (run_steps > 0) status_.seconds_left = (all - done) * seconds / run_steps;
}

}  // namespace moescope
