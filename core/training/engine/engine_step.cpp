// One step of the runs whose next step it is: batch, routing to replay, flips, validation.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "core/numerics/threads.h"
#include "core/training/engine/engine.h"

namespace moescope {
namespace {

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
  frame.tokens_per_s = static_cast<float>(static_cast<double>(batch.input.size()) / seconds_between(begin, end));
  return frame;
}

void add_telemetry_time(TelemetryFrame& frame, Clock::time_point begin) {
  frame.phase_ms[static_cast<std::size_t>(Phase::telemetry)] +=
      std::chrono::duration<float, std::milli>(Clock::now() - begin).count();
}

}  // namespace

void Engine::set_mixture(std::int64_t step, const std::string& text) {
  Mixture mixture = data_->mixture(text);
  mixtures_.erase(mixtures_.lower_bound(step), mixtures_.end());
  mixtures_[step] = std::move(mixture);
}

Batch Engine::batch(std::int64_t step) const {
  return data_->batch(step, std::prev(mixtures_.upper_bound(step))->second);
}

std::vector<Engine::Taken> Engine::train_side_by_side(std::span<Run* const> runs, const Batch& batch) {
  std::vector<Taken> taken;
  for (Run* run : runs) taken.push_back({run});
  side_by_side(static_cast<int>(taken.size()), [&](int i) {
    Taken& own = taken[static_cast<std::size_t>(i)];
    try {
      own.frame = timed_step(*own.run, batch);
    } catch (...) {
      own.error = std::current_exception();
    }
  });
  return taken;
}

void Engine::hand_routing_on() {
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
  const std::size_t together = threads_per_job(static_cast<int>(due.size())) > 0 ? due.size() : 1;
  const bool replay = due.front() == &first() &&
                      std::ranges::any_of(runs_, [](const Run& run) { return run.trainer.config().router.replay; });
  for (std::size_t begin = 0, count = 0; begin < due.size() && !stopping_; begin += count) {
    // The first run goes alone if other runs replay its routing.
    count = replay && begin == 0 ? 1 : std::min(together, due.size() - begin);
    for (Taken& taken : train_side_by_side(std::span(due).subspan(begin, count), batch)) {
      in_step_ = taken.run->number;
      if (taken.error) std::rethrow_exception(taken.error);
      if (replay && taken.run == &first()) hand_routing_on();
      add_flips(*taken.run, taken.frame);
      add_validation(*taken.run, taken.frame);
      publish(std::move(taken.frame));
    }
  }
}

// Must follow add_flips(), because it overwrites the routing.
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
