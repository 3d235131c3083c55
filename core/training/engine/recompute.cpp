#include "core/training/engine/recompute.h"

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <utility>

#include "core/files/text/words.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/processor.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/recorded_run.h"

namespace moescope {
namespace {

// Returns the error message for a loss that differs from the recorded one, with possible causes.
std::string otherwise(const RecomputePlan& plan, float loss) {
  const KernelCheck kernels = check_kernels(plan.kernels);
  return formatted("step %lld gave another loss: %.9g in place of the recorded %.9g. ",
                   static_cast<long long>(plan.step), loss, plan.loss) +
         (kernels.outcome == KernelCheck::Outcome::equal
              ? "The kernels are the same: another version of the program trained it, or its data have changed."
              : kernels.text);
}

// Trains the copy up to and including the plan's step. Calls `progress` before every step, and `at_step` before the
// last one. Throws std::runtime_error if the last step gives another loss than the recorded one.
void train_copy(const RecomputePlan& plan, const std::stop_token& stop,
                const std::function<void(std::int64_t next)>& progress, const std::function<void(Engine&)>& at_step) {
  float loss = kNoValue;
  retrain(
      plan.training,
      [&](Engine& engine) {
        if (stop.stop_requested()) throw std::runtime_error("cancelled");
        progress(engine.next_step());
        if (engine.next_step() == plan.step) at_step(engine);
        return engine.next_step() <= plan.step;
      },
      [&](const TelemetryFrame& frame) {
        loss = frame.ce_loss;
        return true;
      });
  if (!same_loss(loss, plan.loss)) throw std::runtime_error(otherwise(plan, loss));
}

}  // namespace

RecomputePlan plan_recompute(const History& run, const History& first, const OperandPlace& place, std::int64_t step,
                             std::shared_ptr<const TrainerSnapshot> from, std::string from_file) {
  const StepRange recorded_steps = run.steps();
  if (recorded_steps.empty() || step < recorded_steps.first || step > recorded_steps.last)
    throw std::invalid_argument("run " + run.info().name + " has not taken step " + std::to_string(step));
  const bool whole = recorded_steps.first == 0;
  if (!whole && !from && from_file.empty())
    throw std::invalid_argument("run " + run.info().name + " began with step " + std::to_string(recorded_steps.first) +
                                ", from a checkpoint that is not kept");
  RecomputePlan plan;
  plan.run = run.info().run;
  plan.place = place;
  plan.step = step;
  plan.loss = run.value_at(Metric::ce_loss, kWholeRun, step);
  plan.kernels = run.info().kernels;
  RecordedTraining& training = plan.training;
  training.config = recorded_config(run.info());
  training.changes = recorded_changes(run);
  training.from = std::move(from);
  training.from_file = std::move(from_file);
  training.batches_of = recorded_config(first.info());
  training.mixtures = mixture_changes(recorded_changes(first));
  return plan;
}

std::string recorded_checkpoint(const std::string& recording_path, const std::string& run_name, std::int64_t step) {
  const std::string folder = checkpoints_of(recording_path);
  if (folder.empty()) return {};
  std::string newest;
  for (const std::int64_t checkpoint_step : checkpoint_steps(folder)) {
    const std::string file = folder + '/' + std::to_string(checkpoint_step) + '/' + run_name + ".safetensors";
    if (checkpoint_step <= step && std::filesystem::exists(file)) newest = file;
  }
  return newest;
}

Recomputation::Recomputation(RecomputePlan plan)
    : plan_(std::move(plan)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

void Recomputation::work(const std::stop_token& stop) {
  try {
    bool begun = false;
    OperandTap tap(plan_.place);
    const auto progress = [&](std::int64_t next) {
      if (!std::exchange(begun, true)) first_step_ = next;
      next_step_ = next;
    };
    train_copy(plan_, stop, progress, [&](Engine& engine) { engine.tap_next_step(0, &tap); });
    const RunConfig& config = plan_.training.config;
    std::optional<CapturedOperand> captured = tap.finish(config.model.n_experts);
    if (!captured) throw std::runtime_error("run " + config.name + " has no " + place_text(plan_.place));
    captured->run = plan_.run;
    captured->run_name = config.name;
    captured->step = plan_.step;
    capture_.finish(std::move(*captured));
  } catch (const std::exception& error) {
    capture_.fail(error.what());
  }
}

RecomputedScan::RecomputedScan(RecomputePlan plan)
    : plan_(std::move(plan)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

void RecomputedScan::work(const std::stop_token& stop) {
  try {
    OperandScan found;  // not in scan_ before the loss of the step is checked
    train_copy(
        plan_, stop, [&](std::int64_t next) { next_step_ = next; },
        [&](Engine& engine) { found = scan_operands_of(engine, stop); });
    scan_ = std::move(found);
  } catch (const std::exception& error) {
    error_ = error.what();
  }
  has_ended_ = true;
}

OperandScan RecomputedScan::scan_operands_of(Engine& engine, const std::stop_token& stop) {
  Trainer& copy = *engine.find(0);
  if (scanned_operands(copy.config(), std::nullopt).empty())
    throw std::runtime_error("nothing of run " + copy.config().name + " is rounded at step " +
                             std::to_string(plan_.step));
  auto found = copy.scan_operands(engine.batch(plan_.step), std::nullopt, [&](int done, int total) {
    done_ = done;
    total_ = total;
    return !stop.stop_requested();
  });
  if (!found) throw std::runtime_error("cancelled");
  return std::move(*found);
}

}  // namespace moescope
