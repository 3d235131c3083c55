#include "core/training/engine/recompute.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/model/layers/operand_tap.h"
#include "core/numerics/processor.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/recorded_run.h"

namespace moescope {
namespace {

// A recording keeps no bits of a NaN.
bool same_loss(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

// Returns the error for another loss, with possible causes.
std::string otherwise(const RecomputePlan& plan, float loss) {
  char losses[80];
  std::snprintf(losses, sizeof losses, "loss %.9g against %.9g then", loss, plan.loss);
  const KernelCheck kernels = check_kernels(plan.kernels);
  return "step " + std::to_string(plan.step) + " gave another loss: " + losses + ". " +
         (kernels.outcome == KernelCheck::Outcome::same
              ? "The kernels are the same: another version of the program trained it, or its data have changed."
              : kernels.text);
}

}  // namespace

RecomputePlan plan_recompute(const History& run, const History& first, const OperandPlace& place, std::int64_t step,
                             std::shared_ptr<const TrainerSnapshot> from, std::string from_file) {
  const StepRange taken = run.steps();
  if (taken.empty() || step < taken.first || step > taken.last)
    throw std::invalid_argument("run " + run.info().name + " has not taken step " + std::to_string(step));
  const bool whole = taken.first == 0;
  if (!whole && !from && from_file.empty())
    throw std::invalid_argument("run " + run.info().name + " began with step " + std::to_string(taken.first) +
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

void check_loss(const RecomputePlan& plan, float loss) {
  if (!same_loss(loss, plan.loss)) throw std::runtime_error(otherwise(plan, loss));
}

std::string recorded_checkpoint(const std::string& recording_path, const std::string& run_name, std::int64_t step) {
  const std::string folder = checkpoints_of(recording_path);
  if (folder.empty()) return {};
  std::string newest;
  for (const std::int64_t kept : checkpoint_steps(folder)) {
    const std::string file = folder + '/' + std::to_string(kept) + '/' + run_name + ".safetensors";
    if (kept <= step && std::filesystem::exists(file)) newest = file;
  }
  return newest;
}

Recomputation::Recomputation(RecomputePlan plan)
    : plan_(std::move(plan)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

Recomputation::~Recomputation() = default;

void Recomputation::work(const std::stop_token& stop) {
  try {
    capture_.finish(compute(stop));
  } catch (const std::exception& error) {
    capture_.fail(error.what());
  }
}

CapturedOperand Recomputation::compute(const std::stop_token& stop) {
  bool begun = false;
  OperandTap tap(plan_.place);
  float loss = kNoValue;
  int n_experts = 0;
  retrain(
      plan_.training,
      [&](Engine& engine) {
        if (stop.stop_requested()) throw std::runtime_error("cancelled");
        const std::int64_t next = engine.next_step();
        if (!std::exchange(begun, true)) first_step_ = next;
        next_step_ = next;
        n_experts = engine.first().trainer.config().model.n_experts;
        if (next == plan_.step) engine.tap_next_step(0, &tap);
        return next <= plan_.step;
      },
      [&](const TelemetryFrame& frame) {
        loss = frame.ce_loss;
        return true;
      });
  check_loss(plan_, loss);
  std::optional<CapturedOperand> captured = tap.finish(n_experts);
  if (!captured) throw std::runtime_error("run " + plan_.training.config.name + " has no " + place_text(plan_.place));
  captured->run = plan_.run;
  captured->run_name = plan_.training.config.name;
  captured->step = plan_.step;
  return std::move(*captured);
}

}  // namespace moescope
