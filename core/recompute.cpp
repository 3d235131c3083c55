#include "core/recompute.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "core/checkpoint_folder.h"
#include "core/dataset.h"
#include "core/lab_state.h"
#include "core/model/operand_tap.h"
#include "core/trainer.h"

namespace moescope {
namespace {

constexpr const char* kForAll = " (for all runs";

// "optimizer.lr 0.002 -> 0.01": the key and the new value, as Lab writes its markers.
LiveChange change_of(const Marker& marker) {
  const std::string& text = marker.text;
  const auto space = text.find(' '), arrow = text.find(" -> ");
  const std::string unknown = "the change at step " + std::to_string(marker.step) + " is not known in full: " + text;
  if (space == std::string::npos || arrow == std::string::npos) throw std::invalid_argument(unknown);
  const ConfigField* field = find_field(text.substr(0, space));
  std::string value = text.substr(arrow + 4);
  value = value.substr(0, value.find(kForAll));
  if (!field || value.ends_with("...")) throw std::invalid_argument(unknown);
  if (value == "none" && std::holds_alternative<std::string>(field->get({})) && field->choices.empty()) value.clear();
  return {marker.run, field->key, parse_value(*field, value)};
}

RunConfig config_of(const History& history) {
  const RunInfo& info = history.info();
  if (info.config_toml.empty()) throw std::invalid_argument("the settings of run " + info.name + " are not known");
  return parse_config(info.config_toml, "recording").config;
}

std::vector<std::pair<std::int64_t, LiveChange>> changes_of(const History& history, std::int64_t from,
                                                            std::int64_t to) {
  std::vector<std::pair<std::int64_t, LiveChange>> changes;
  for (const Marker& marker : history.markers())
    if (marker.kind == "change" && marker.run == history.info().run && marker.step >= from && marker.step <= to &&
        !marker.text.starts_with("telemetry."))  // what is looked at
      changes.emplace_back(marker.step, change_of(marker));
  return changes;
}

std::unique_ptr<Dataset> data_of(const RecomputePlan& plan) {
  return open_dataset(plan.data, plan.data_seed);
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
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
  plan.config = config_of(run);
  plan.changes = changes_of(run, from ? from->steps_taken : 0, step);
  plan.from = std::move(from);
  plan.from_file = std::move(from_file);

  const RunConfig data = config_of(first);
  plan.data = data.data;
  plan.data_seed = data.seed;
  for (auto& [at, change] : changes_of(first, 0, step))
    if (change.key == kMixtureKey) plan.mixtures.emplace_back(at, std::get<std::string>(change.value));
  return plan;
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

Recompute::Recompute(RecomputePlan plan)
    : plan_(std::move(plan)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

Recompute::~Recompute() = default;

void Recompute::work(const std::stop_token& stop) {
  try {
    capture_.finish(compute(stop));
  } catch (const std::exception& error) {
    capture_.fail(error.what());
  }
}

CapturedOperand Recompute::compute(const std::stop_token& stop) {
  const std::unique_ptr<Dataset> data = data_of(plan_);
  Trainer trainer = trainer_of(plan_);
  first_step_ = next_step_ = trainer.steps_taken();
  OperandTap tap(plan_.place);
  Mixture mixture = data->mixture(plan_.data.mixture);
  auto change = plan_.changes.begin();
  auto mix = plan_.mixtures.begin();
  TelemetryFrame frame;
  for (std::int64_t step = trainer.steps_taken(); step <= plan_.step; ++step) {
    if (stop.stop_requested()) throw std::runtime_error("cancelled");
    for (; change != plan_.changes.end() && change->first <= step; ++change)
      if (change->first >= first_step_) trainer.apply(change->second);
    for (; mix != plan_.mixtures.end() && mix->first <= step; ++mix) mixture = data->mixture(mix->second);
    frame = trainer.step(data->batch(step, mixture), step == plan_.step ? &tap : nullptr);
    next_step_ = step + 1;
  }
  if (!same_bits(frame.ce_loss, plan_.loss))
    throw std::runtime_error("step " + std::to_string(plan_.step) + " came out otherwise: loss " +
                             std::to_string(frame.ce_loss) + " against " + std::to_string(plan_.loss) +
                             " then; it was trained by another version of the program, on another kind of CPU, or its "
                             "data have changed");
  std::optional<CapturedOperand> captured = tap.finish(trainer.config().model.n_experts);
  if (!captured) throw std::runtime_error("run " + plan_.config.name + " has no " + place_text(plan_.place));
  captured->run = plan_.run;
  captured->run_name = plan_.config.name;
  captured->step = plan_.step;
  return std::move(*captured);
}

}  // namespace moescope
