#include "core/training/recompute.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "core/data/dataset.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/kernels.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/recorded_run.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

std::unique_ptr<Dataset> data_of(const RecomputePlan& plan) {
  return open_dataset(plan.data, plan.data_seed);
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Why a step may give another loss.
std::string otherwise(const RecomputePlan& plan, float loss) {
  char losses[80];
  std::snprintf(losses, sizeof losses, "loss %.9g against %.9g then", loss, plan.loss);
  const KernelCheck kernels = check_kernels(plan.kernels);
  return "step " + std::to_string(plan.step) + " gave another loss: " + losses + ". " +
         (kernels.outcome == KernelCheck::Outcome::same
              ? "The kernels are the same: another version of the program trained it, or its data have changed."
              : kernels.text);
}

Trainer trainer_of(const RecomputePlan& plan) {
  if (plan.from) return Trainer::resume(*plan.from, plan.from->config);
  return plan.from_file.empty() ? Trainer(plan.config) : Trainer::resume(plan.from_file);
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
  plan.config = recorded_config(run.info());
  const std::int64_t first_step = from ? from->steps_taken : 0;
  for (auto& change : recorded_changes(run))
    if (change.first >= first_step && change.first <= step) plan.changes.push_back(std::move(change));
  plan.from = std::move(from);
  plan.from_file = std::move(from_file);

  const RunConfig data = recorded_config(first.info());
  plan.data = data.data;
  plan.data_seed = data.seed;
  for (auto& [at, change] : recorded_changes(first))
    if (change.setting == &DataConfig::mixture && at <= step)
      plan.mixtures.emplace_back(at, std::get<std::string>(change.value));
  return plan;
}

RunCopy train_copy(const RecomputePlan& plan, const std::stop_token& stop,
                   const std::function<void(std::int64_t next)>& on_step) {
  RunCopy copy{data_of(plan), trainer_of(plan), {}};
  const Dataset* data = copy.data.get();
  const std::int64_t first_step = copy.trainer.steps_taken();
  Mixture mixture = data->mixture(plan.data.mixture);
  auto change = plan.changes.begin();
  auto mix = plan.mixtures.begin();
  for (std::int64_t step = first_step;; ++step) {
    if (stop.stop_requested()) throw std::runtime_error("cancelled");
    for (; change != plan.changes.end() && change->first <= step; ++change)
      if (change->first >= first_step) copy.trainer.apply(change->second);
    for (; mix != plan.mixtures.end() && mix->first <= step; ++mix) mixture = data->mixture(mix->second);
    copy.batch = data->batch(step, mixture);
    on_step(step);
    if (step >= plan.step) return copy;
    copy.trainer.step(copy.batch);
  }
}

void check_loss(const RecomputePlan& plan, float loss) {
  if (!same_bits(loss, plan.loss)) throw std::runtime_error(otherwise(plan, loss));
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
  bool first = true;
  RunCopy copy = train_copy(plan_, stop, [&](std::int64_t next) {
    if (std::exchange(first, false)) first_step_ = next;
    next_step_ = next;
  });
  OperandTap tap(plan_.place);
  const float loss = copy.trainer.step(copy.batch, &tap).ce_loss;
  next_step_ = plan_.step + 1;
  check_loss(plan_, loss);
  std::optional<CapturedOperand> captured = tap.finish(copy.trainer.config().model.n_experts);
  if (!captured) throw std::runtime_error("run " + plan_.config.name + " has no " + place_text(plan_.place));
  captured->run = plan_.run;
  captured->run_name = plan_.config.name;
  captured->step = plan_.step;
  return std::move(*captured);
}

}  // namespace moescope
