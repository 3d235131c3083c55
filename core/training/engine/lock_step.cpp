#include "core/training/engine/lock_step.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/config/config_difference.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

void check_fit(const std::vector<Trainer>& trainers) {
  if (trainers.empty() || trainers.size() > kMaxRuns)
    throw std::runtime_error("a lab holds " + std::to_string(trainers.size()) + " runs, allowed are 1 to " +
                             std::to_string(kMaxRuns) +
                             "; \"Compare with...\" and moescope-cli train take more, in groups");
  const Trainer& first = trainers.front();
  for (const Trainer& trainer : trainers) {
    if (const std::string problem = lock_step_problem(first.config(), trainer.config()); !problem.empty())
      throw std::runtime_error(problem);
    if (trainer.steps_taken() != first.steps_taken())
      throw std::runtime_error("run " + trainer.config().name + " and run " + first.config().name +
                               " are at different steps: runs in lock-step take each together");
  }
}

}  // namespace

std::string replay_problem(const RunConfig& first, const RunConfig& other) {
  if (first.router.replay)
    return "run " + first.name +
           " is the first, which has no other to replay: router.replay is for a twin, beside a run A that chooses";
  if (!other.router.replay) return {};
  const auto differ = [&](Setting setting, int a, int b) {
    return "run " + other.name + " cannot replay the routing of run " + first.name + ": " + setting.key() + " is " +
           std::to_string(b) + " against " + std::to_string(a);
  };
  const ModelConfig &a = first.model, &b = other.model;
  if (a.n_layers != b.n_layers) return differ(&ModelConfig::n_layers, a.n_layers, b.n_layers);
  if (a.n_dense_layers != b.n_dense_layers)
    return differ(&ModelConfig::n_dense_layers, a.n_dense_layers, b.n_dense_layers);
  if (a.n_experts != b.n_experts) return differ(&ModelConfig::n_experts, a.n_experts, b.n_experts);
  if (first.router.top_k != other.router.top_k)
    return differ(&RouterConfig::top_k, first.router.top_k, other.router.top_k);
  return {};
}

std::string lock_step_problem(const RunConfig& first, const RunConfig& other) {
  for (const ConfigDifference& found : difference(first, other))
    if (found.setting.is_in<DataConfig>())
      return "run " + other.name + " and run " + first.name + " differ in [data]: " + found.setting.key() + " is \"" +
             found.b + "\" against \"" + found.a + "\", but runs in lock-step read the same batches";
  return replay_problem(first, other);
}

LockStep::LockStep(std::vector<Trainer> trainers, const GoesOn& goes_on) {
  check_fit(trainers);
  const RunConfig& first = trainers.front().config();
  data_ = open_dataset(first.data, first.seed, goes_on);
  mixtures_[0] = data_->mixture(first.data.mixture);
  for (Trainer& trainer : trainers) runs_.push_back({static_cast<int>(runs_.size()), std::move(trainer)});
}

void LockStep::add(int number, Trainer trainer) {
  assert(!find(number));
  if (trainer.config().router.replay && trainer.steps_taken() != runs_.front().trainer.steps_taken())
    throw std::runtime_error("it replays run A's routing, which is not kept of steps behind it: start both together");
  runs_.push_back({number, std::move(trainer)});
}

void LockStep::remove(int number) {
  assert(number != runs_.front().number);
  for (auto run = runs_.begin() + 1; run != runs_.end(); ++run) {
    if (run->number != number) continue;
    runs_.erase(run);
    return;
  }
}

Trainer* LockStep::find(int number) {
  for (Run& run : runs_)
    if (run.number == number) return &run.trainer;
  return nullptr;
}

std::int64_t LockStep::next_step() const {
  std::int64_t lowest = runs_.front().trainer.steps_taken();
  for (const Run& run : runs_) lowest = std::min(lowest, run.trainer.steps_taken());
  return lowest;
}

void LockStep::tap_next_step(int number, OperandTap* tap) {
  for (Run& run : runs_)
    if (run.number == number) run.tap = tap;
}

void LockStep::set_mixture(std::int64_t step, const std::string& text) {
  Mixture mixture = data_->mixture(text);
  mixtures_.erase(mixtures_.lower_bound(step), mixtures_.end());
  mixtures_[step] = std::move(mixture);
}

Batch LockStep::batch(std::int64_t step) const {
  return data_->batch(step, std::prev(mixtures_.upper_bound(step))->second);
}

std::vector<LockStep::Taken> LockStep::train(std::span<Run* const> runs, const Batch& batch) {
  std::vector<Taken> taken;
  for (Run* run : runs) taken.push_back({run});
  side_by_side(static_cast<int>(taken.size()), [&](int i) {
    Taken& own = taken[static_cast<std::size_t>(i)];
    Run& run = *own.run;
    try {
      own.frame = run.clock.step(run.trainer, batch, run.number, std::exchange(run.tap, nullptr));
    } catch (...) {
      own.error = std::current_exception();
    }
  });
  return taken;
}

bool LockStep::any_replays() const {
  return std::ranges::any_of(runs_, [](const Run& run) { return run.trainer.config().router.replay; });
}

void LockStep::hand_routing_on() {
  replayed_.clear();
  for (const LayerRouting& layer : runs_.front().trainer.routing())
    replayed_.emplace_back(layer.ids_TK.begin(), layer.ids_TK.end());
  for (Run& run : runs_)
    if (run.trainer.config().router.replay) run.trainer.replay(replayed_);
}

int LockStep::step(const std::function<bool(TelemetryFrame)>& publish) {
  const std::int64_t step = next_step();
  in_step_ = runs_.front().number;
  const Batch batch = this->batch(step);
  std::vector<Run*> due;
  for (Run& run : runs_)
    if (run.trainer.steps_taken() == step) due.push_back(&run);
  const std::size_t together = threads_per_job(static_cast<int>(due.size())) > 0 ? due.size() : 1;
  const bool replay = any_replays() && due.front() == &runs_.front();
  int published = 0;
  for (std::size_t first = 0, count = 0; first < due.size(); first += count) {
    // The first goes alone where others run what it chose.
    count = replay && first == 0 ? 1 : std::min(together, due.size() - first);
    for (Taken& taken : train(std::span(due).subspan(first, count), batch)) {
      in_step_ = taken.run->number;
      if (taken.error) std::rethrow_exception(taken.error);
      if (replay && taken.run == &runs_.front()) hand_routing_on();
      add_flips(*taken.run, taken.frame);
      add_validation(*taken.run, taken.frame);
      ++published;
      if (!publish(std::move(taken.frame))) return published;
    }
  }
  return published;
}

// After the flips, whose routing it overwrites.
void LockStep::add_validation(Run& run, TelemetryFrame& frame) {
  if (!is_due(frame.step, run.trainer.config().telemetry.validation_every)) return;
  const auto begin = std::chrono::steady_clock::now();
  if (held_out_.empty()) held_out_ = data_->held_out();
  if (held_out_.empty()) return;
  frame.val_loss = run.trainer.held_out_loss(held_out_);
  frame.phase_ms[static_cast<std::size_t>(Phase::telemetry)] +=
      std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void LockStep::add_flips(const Run& run, TelemetryFrame& frame) {
  if (!is_due(frame.step, run.trainer.config().telemetry.flips_every)) return;
  const auto begin = std::chrono::steady_clock::now();
  if (&run == &runs_.front()) {
    routing_.put(frame.step, keep_routing(run.trainer.routing()));
  } else if (const auto* reference = routing_.find(frame.step)) {
    frame.flips = routing_flips(*reference, keep_routing(run.trainer.routing()));
  }
  frame.phase_ms[static_cast<std::size_t>(Phase::telemetry)] +=
      std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace moescope
