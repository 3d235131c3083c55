#include "core/training/engine/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <exception>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/numerics/threads.h"
#include "core/recording/marks.h"
#include "core/training/checkpoint_folder.h"

namespace moescope {
namespace {

std::vector<Trainer> checked(std::vector<Trainer> trainers) {
  if (trainers.empty() || trainers.size() > kMaxRuns)
    throw std::runtime_error(
        fmt::format("{} runs are to train together; allowed: 1 to {}; \"Compare with...\" and moescope-cli train take "
                    "more, in groups",
                    trainers.size(), kMaxRuns));
  const Trainer& first = trainers.front();
  for (const Trainer& trainer : trainers) {
    if (const std::string problem = lock_step_problem(first.config(), trainer.config()); !problem.empty())
      throw std::runtime_error(problem);
    if (trainer.steps_taken() != first.steps_taken())
      throw std::runtime_error("run " + trainer.config().name + " and run " + first.config().name +
                               " are at different steps: runs in lock-step take each step together");
  }
  return trainers;
}

std::vector<Engine::Run> numbered(std::vector<Trainer> trainers) {
  std::vector<Engine::Run> runs;
  for (Trainer& trainer : checked(std::move(trainers))) runs.push_back({to_int(runs.size()), std::move(trainer)});
  return runs;
}

bool loss_is_finite(const TelemetryFrame& frame) {
  return std::isfinite(frame.ce_loss) && std::isfinite(frame.aux_loss) && std::isfinite(frame.z_loss);
}

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Takes a step and sets run, wall_s and tokens_per_s, which the trainer does not know.
TelemetryFrame timed_step(Engine::Run& run, const Batch& batch) {
  const auto begin = Clock::now();
  if (!run.start) run.start = begin;
  TelemetryFrame frame = run.trainer.step(batch, std::exchange(run.tap, nullptr));
  const auto end = Clock::now();
  frame.run = run.number;
  frame.wall_s = seconds_between(*run.start, end);
  frame.tokens_per_s = static_cast<float>(batch.input.size() / seconds_between(begin, end));
  return frame;
}

// The frame of a run's step, or its exception.
struct Taken {
  Engine::Run* run;
  TelemetryFrame frame = {};
  std::exception_ptr error = {};
};

std::vector<Taken> train_side_by_side(std::span<Engine::Run* const> runs, const Batch& batch) {
  std::vector<Taken> steps;
  for (Engine::Run* run : runs) steps.push_back({run});
  side_by_side(to_int(steps.size()), [&](int i) {
    Taken& taken_step = steps[i];
    try {
      taken_step.frame = timed_step(*taken_step.run, batch);
    } catch (...) {
      taken_step.error = std::current_exception();
    }
  });
  return steps;
}

void add_telemetry_time(TelemetryFrame& frame, Clock::time_point begin) {
  frame.phase_ms[static_cast<std::size_t>(Phase::telemetry)] +=
      std::chrono::duration<float, std::milli>(Clock::now() - begin).count();
}

}  // namespace

std::string Trouble::text() const {
  const std::string at = fmt::format("step {}", step);
  return "run " + name + ": " + (within_step ? at + " failed: " + reason : reason + " at " + at);
}

Engine::Engine(std::vector<Trainer> trainers, const EngineOptions& options)
    : recording_(options.recording),
      twins_end_alone_(options.twins_end_alone),
      compares_runs_(options.compares_runs),
      runs_(numbered(std::move(trainers))) {
  const RunConfig& batches = options.batches_of ? *options.batches_of : first().trainer.config();
  data_ = open_dataset(batches.data, batches.seed, options.goes_on);
  if (const int tokens = data_->vocabulary(), vocab = first().trainer.config().model.vocab; tokens > vocab)
    throw std::runtime_error(
        fmt::format("model.vocab is {}, but data.tokenizer has {} tokens: choose at least as many", vocab, tokens));
  mixtures_[0] = data_->mixture(batches.data.mixture);
  sink_.emplace(recording_, options.array_bytes);  // last, because it creates a file
  for (const Run& run : runs_)
    histories_.push_back(sink_->add_run(run_info(run.trainer.config(), run.number, data_->domains())));
}

void Engine::train(const std::function<bool()>& wants_step, EngineObserver& observer) {
  while (!stopping_ && wants_step()) take_step(observer);
  observer.ended(*this);
}

void Engine::take_step(EngineObserver& observer) {
  const std::int64_t step = next_step();
  in_step_ = first().number;
  std::vector<int> lost;
  try {
    observer.before_step(*this);
    step_runs(step, [&](TelemetryFrame frame) {
      if (!loss_is_finite(frame)) lost.push_back(frame.run);
      observer.frame(frame);
      sink_->publish(std::move(frame));
    });
    for (Run& run : runs_) note_first_non_finite(run, step);
    for (const int run : lost) lose(run, step, observer);
    observer.after_step(*this);
  } catch (const std::exception& error) {
    trouble_ = Trouble{find(in_step_)->config().name, step, error.what(), true};
    sink_->publish(Marker{in_step_, step, "event", trouble_->text()});
  }
}

// Records where the first NaN or infinity of a run arose. The gradient may have one a step before the loss.
void Engine::note_first_non_finite(Run& run, std::int64_t step) {
  const auto place = run.trainer.first_non_finite();
  if (place && !run.non_finite)
    sink_->publish(Marker{run.number, step, "event", std::string(kFirstNonFinite) + place->text()});
  run.non_finite = place.has_value();
}

void Engine::lose(int run, std::int64_t step, EngineObserver& observer) {
  const Trouble trouble{find(run)->config().name, step, "the loss is NaN or infinite"};
  sink_->publish(Marker{run, step, "event", trouble.text()});
  if (twins_end_alone_ && run != first().number) {
    remove(run);
    observer.twin_lost(trouble);
  } else if (!trouble_ || trouble_->step != step) {
    trouble_ = trouble;
  }
}

Trainer* Engine::find(int number) {
  for (Run& run : runs_)
    if (run.number == number) return &run.trainer;
  return nullptr;
}

std::int64_t Engine::next_step() const {
  std::int64_t lowest = first().trainer.steps_taken();
  for (const Run& run : runs_) lowest = std::min(lowest, run.trainer.steps_taken());
  return lowest;
}

void Engine::add(int number, Trainer trainer) {
  assert(!find(number));
  if (trainer.config().router.replay && trainer.steps_taken() != first().trainer.steps_taken())
    throw std::runtime_error("it replays run A's routing, which is not kept for earlier steps: start both together");
  runs_.push_back({number, std::move(trainer)});
}

void Engine::remove(int number) {
  assert(number != first().number);
  std::erase_if(runs_, [&](const Run& run) { return run.number == number; });
}

void Engine::tap_next_step(int number, OperandTap* tap) {
  for (Run& run : runs_)
    if (run.number == number) run.tap = tap;
}

std::string Engine::save_checkpoint(const std::string& folder) {
  const std::int64_t step = next_step();
  std::string problem;
  try {
    if (trouble_ && trouble_->within_step)
      throw std::runtime_error("training failed within a step, so there is no state worth keeping");
    if (!level()) throw std::runtime_error("no checkpoint could be written while a run catches up");
    write_checkpoint_of_runs(folder);
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  const std::string path = fmt::format("{}/{}", folder, step);
  const std::string text = problem.empty() ? std::string(kCheckpointSaved) + ": " + path : problem;
  for (const Run& run : runs_) sink_->publish(Marker{run.number, step, "event", text});
  return problem;
}

// Gathers the first run's state from all ranks before any operation that can fail on one rank alone. Several runs do
// not share ranks.
void Engine::write_checkpoint_of_runs(const std::string& folder) {
  const std::shared_ptr<const TrainerSnapshot> first_snapshot = first().trainer.snapshot();
  if (!first_snapshot) return;
  std::vector<RunToSave> runs;
  for (const Run& run : runs_)
    runs.push_back({run.trainer.config().name, [&](const std::string& file) {
                      &run == &first() ? first_snapshot->save(file) : run.trainer.save(file);
                    }});
  write_checkpoint(folder, next_step(), runs);
}

void Engine::set_mixture(std::int64_t step, const std::string& text) {
  Mixture mixture = data_->mixture(text);
  mixtures_.erase(mixtures_.lower_bound(step), mixtures_.end());
  mixtures_[step] = std::move(mixture);
}

Batch Engine::batch(std::int64_t step) const {
  return data_->batch(step, std::prev(mixtures_.upper_bound(step))->second);
}

void Engine::pass_on_routing() {
  replayed_.clear();
  for (const LayerRouting& layer : first().trainer.routing())
    replayed_.emplace_back(layer.ids_TK.begin(), layer.ids_TK.end());
  for (Run& run : runs_)
    if (run.trainer.config().router.replay) run.trainer.replay(replayed_);
}

void Engine::step_runs(std::int64_t step, const std::function<void(TelemetryFrame)>& publish) {
  const Batch batch = this->batch(step);
  std::vector<Run*> due;
  for (Run& run : runs_)
    if (run.trainer.steps_taken() == step) due.push_back(&run);
  const std::size_t together = threads_per_job(to_int(due.size())) > 0 ? due.size() : 1;
  const bool replay = due.front() == &first() &&
                      std::ranges::any_of(runs_, [](const Run& run) { return run.trainer.config().router.replay; });
  for (std::size_t begin = 0, count = 0; begin < due.size() && !stopping_; begin += count) {
    // The first run takes the step before the others if one of them replays its routing.
    count = replay && begin == 0 ? 1 : std::min(together, due.size() - begin);
    for (Taken& taken_step : train_side_by_side(std::span(due).subspan(begin, count), batch)) {
      in_step_ = taken_step.run->number;
      if (taken_step.error) std::rethrow_exception(taken_step.error);
      if (replay && taken_step.run == &first()) pass_on_routing();
      add_flips(*taken_step.run, taken_step.frame);
      add_validation(*taken_step.run, taken_step.frame);
      publish(std::move(taken_step.frame));
    }
  }
}

// Must be called after add_flips(), because held_out_loss() overwrites the routing.
void Engine::add_validation(Run& run, TelemetryFrame& frame) {
  if (!compares_runs_ || !is_due(frame.step, run.trainer.config().telemetry.validation_every)) return;
  const auto begin = Clock::now();
  if (held_out_.empty()) held_out_ = data_->held_out();
  if (held_out_.empty()) return;
  frame.val_loss = run.trainer.held_out_loss(held_out_);
  add_telemetry_time(frame, begin);
}

void Engine::add_flips(const Run& run, TelemetryFrame& frame) {
  if (!compares_runs_ || !is_due(frame.step, run.trainer.config().telemetry.flips_every)) return;
  const auto begin = Clock::now();
  if (&run == &first()) {
    routing_.put(frame.step, keep_routing(run.trainer.routing()));
  } else if (const auto* reference = routing_.find(frame.step)) {
    frame.flips = routing_flips(*reference, keep_routing(run.trainer.routing()));
  }
  add_telemetry_time(frame, begin);
}

}  // namespace moescope
