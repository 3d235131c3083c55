// State of the lab: what its thread and its callers share. Used by lab.cpp, and by lab_rewind.cpp for checkpoints in
// the ring.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

#include "core/telemetry/frame/change_marker.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/lab.h"
#include "core/training/lock_step.h"
#include "core/training/pending_captures.h"
#include "core/training/recorded_run.h"

namespace moescope {

using LabClock = std::chrono::steady_clock;

// A live change and the step before which it takes effect.
struct PinnedChange {
  std::uint64_t id = 0;  // rises in the order in which they were accepted
  std::int64_t step = kNotYet;
  LiveChange change;
  Marker marker;  // but for its run and step

  static constexpr std::int64_t kNotYet = -1;  // accepted during a step, takes effect after it
};

void make_names_unique(std::vector<RunConfig>& configs);
void require_valid(const RunConfig& config);  // throws std::invalid_argument with the first problem

struct Lab::State {
  explicit State(std::vector<Trainer> trainers, const std::string& recording_path)
      : lock_step(std::move(trainers)), sink(recording_path), ring(checkpoints_of(recording_path)) {
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
  struct CheckpointRequest {
    std::string directory;
  };
  struct AddRequest {
    int number;
    RunConfig config;                  // at its first step
    std::set<std::string> deliberate;  // keys in which it differs on purpose from the run whose changes it gets
    int like = 0;                      // that run
    CheckpointRing::Snapshot from;     // nullptr: the beginning
    std::uint64_t changes_before = 0;  // id of the last change that `config` contains
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
  using Request = std::variant<PinnedChange, CheckpointRequest, AddRequest, RemoveRequest, CaptureRequest, KeepRequest,
                               RewindRequest>;

  // --- touched by the training thread only ---
  LockStep lock_step;
  std::map<int, std::vector<PinnedChange>> pending;  // by run, for steps that it has not reached
  LabClock::time_point next_due{};                   // of the speed limit
  PendingCaptures captures;
  std::uint64_t last_served = 0;  // id of a change

  FrameSink sink;       // after members that may throw, since it creates a file; callable from any thread
  CheckpointRing ring;  // the same

  // --- shared, under `mutex` ---
  mutable std::mutex mutex;
  std::condition_variable wake;  // the training thread: there is a request
  std::condition_variable idle;  // flush(): the requests are served
  bool stop = false;
  // An exception interrupted a trainer within a step: no further step. Written by the training thread only.
  bool broken = false;
  bool level = true;             // no run is catching up
  std::int64_t first_step = 0;   // at which the lab began
  std::int64_t lowest_step = 0;  // next step to take, by any run
  std::int64_t run_before = 0;   // while running: pause before taking this step
  int single_steps = 0;
  double max_steps_per_s = 0;
  std::vector<OpenRun> runs;
  int next_number = 0;
  RunConfig first_config_at_start;
  std::vector<PinnedChange> changes;                     // all that a rewind has not undone
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
  // Checks the domains of data.mixture against those of the open data, which never change.
  void require_domains(const std::string& mixture) const {
    try {
      mixture_weights(mixture, lock_step.data().domains());
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string(kMixtureKey) + ": " + error.what());
    }
  }
  // Adds a valid change.
  void accept(LiveChange change, const ConfigField& field, OpenRun& run) {
    const bool for_all = change.key == kMixtureKey && runs.size() > 1;
    Marker marker = change_marker(change.run, PinnedChange::kNotYet, change.key, to_string(field.get(run.config)),
                                  to_string(change.value), for_all);
    field.set(run.config, change.value);
    changes.push_back({++last_accepted, PinnedChange::kNotYet, std::move(change), std::move(marker)});
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

}  // namespace moescope
