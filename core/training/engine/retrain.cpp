#include "core/training/engine/retrain.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/files/text/words.h"
#include "core/frame/frame.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/processor.h"
#include "core/training/checkpoint_folder.h"

namespace moescope {

LiveChange recorded_change(const Marker& marker) {
  const auto fail = [&](const std::string& reason) {
    return std::runtime_error(
        fmt::format("the change at step {} cannot be repeated: \"{}\" {}", marker.step, marker.text, reason));
  };
  const ConfigField* field = find_field(marker.key);
  if (!field) throw fail("names no setting");
  try {
    return {marker.run, *field, parse_value(*field, marker.value)};
  } catch (const std::invalid_argument& problem) {
    throw fail(problem.what());
  }
}

RunConfig recorded_config(const RunInfo& info) {
  if (info.config_toml.empty()) throw std::runtime_error("the settings of run " + info.name + " are not known");
  ParsedConfig parsed = parse_config(info.config_toml, info.name);
  if (!parsed.problems.empty())
    throw std::runtime_error(info.name +
                             ": its recorded settings do not fit this version: " + parsed.problems.front().text());
  return std::move(parsed.config);
}

std::set<std::string> named_inputs(const RunConfig& config) {
  std::set<std::string> inputs;
  for (const Setting setting :
       {Setting(&ModelConfig::initial_weights), Setting(&DataConfig::path), Setting(&DataConfig::tokenizer)})
    if (const auto path = std::get<std::string>(setting.field().get(config)); !path.empty())
      inputs.insert(setting.key() + ": " + path);
  return inputs;
}

StepChanges recorded_changes(const History& history) {
  StepChanges changes;
  for (const Marker& marker : history.markers())
    if (marker.kind == kChangeKind && marker.run == history.info().run && !marker.key.starts_with("telemetry."))
      changes.emplace_back(marker.step, recorded_change(marker));
  std::ranges::stable_sort(changes, {}, &StepChanges::value_type::first);
  return changes;
}
namespace {

constexpr std::size_t kArrayBytes = std::size_t{1} << 20;  // for the histories, which are not read

std::vector<Trainer> trainer_of(const RecordedTraining& recorded) {
  std::vector<Trainer> trainers;
  if (recorded.from)
    trainers.push_back(Trainer::resume(*recorded.from, recorded.from->config));
  else
    trainers.push_back(recorded.from_file.empty() ? Trainer(recorded.config) : Trainer::resume(recorded.from_file));
  return trainers;
}

class Retraining : public EngineObserver {
 public:
  Retraining(const RecordedTraining& recorded, const std::function<bool(const TelemetryFrame&)>& frame)
      : recorded_(recorded),
        frame_(frame),
        engine_(trainer_of(recorded),
                {.array_bytes = kArrayBytes, .batches_of = recorded.batches_of, .compares_runs = false}),
        first_(engine_.next_step()) {}

  void train(const std::function<bool(Engine&)>& before_step) {
    engine_.train([&] { return prepare_step() && before_step(engine_); }, *this);
    if (failed()) throw std::runtime_error(engine_.trouble()->reason);
  }
  void frame(const TelemetryFrame& frame) override { goes_on_ = frame_(frame); }

 private:
  // A NaN or infinite loss is not a failure, because it was recorded as such.
  bool failed() const { return engine_.trouble() && engine_.trouble()->within_step; }

  bool prepare_step() {
    if (failed() || !goes_on_) return false;
    const std::int64_t step = engine_.next_step();
    for (const auto& [at, change] : recorded_.changes)
      if (at == step) engine_.find(0)->apply(change);
    for (const auto& [at, change] : recorded_.mixtures)
      if (at == step || (step == first_ && at < step)) engine_.set_mixture(at, std::get<std::string>(change.value));
    return true;
  }

  const RecordedTraining& recorded_;
  const std::function<bool(const TelemetryFrame&)>& frame_;
  Engine engine_;
  const std::int64_t first_;
  bool goes_on_ = true;
};

// Returns the error message for a loss that differs from the recorded one, with possible causes.
std::string otherwise(const RecomputePlan& plan, float loss) {
  const KernelCheck kernels = check_kernels(plan.kernels);
  return fmt::format("step {} gave another loss: {:.9g} in place of the recorded {:.9g}. ", plan.step, loss,
                     plan.loss) +
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

bool same_loss(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

StepChanges mixture_changes(const StepChanges& changes) {
  StepChanges mixtures;
  std::ranges::copy_if(changes, std::back_inserter(mixtures),
                       [](const auto& change) { return change.second.setting == &DataConfig::mixture; });
  return mixtures;
}

void retrain(const RecordedTraining& recorded, const std::function<bool(Engine&)>& before_step,
             const std::function<bool(const TelemetryFrame&)>& frame) {
  Retraining(recorded, frame).train(before_step);
}

std::string Reproduction::text() const {
  const std::string steps = fmt::format("{}{}", compared, compared == 1 ? " step" : " steps");
  if (differs_at < 0) return "The same losses to the bit over " + steps + ".";
  return fmt::format(
             "The losses differ from step {} on: {:.9g} recorded, {:.9g} now; the {} before are the same to the bit.",
             differs_at, recorded, computed, compared - 1) +
         (kernels.empty() ? "" : " " + kernels);
}

std::string reproduce_problem(const RunInfo& first, const History& history) {
  const RunInfo& info = history.info();
  if (info.config_toml.empty() || first.config_toml.empty())
    return info.name + " was not trained here: its log has no settings to train from";
  if (history.steps().empty()) return info.name + " has no steps";
  if (history.steps().first != 0)
    return fmt::format(
        "{} begins with step {}, resumed or branched off: its state at that step is in a checkpoint, not in the "
        "recording",
        info.name, history.steps().first);
  return {};
}

std::set<std::string> inputs_to_reproduce(const RunInfo& first, const RunInfo& info) {
  std::set<std::string> inputs;
  for (const RunInfo* run : {&first, &info})
    inputs.merge(named_inputs(parse_config(run->config_toml, run->name).config));
  return inputs;
}

Reproduction reproduce(const RunInfo& first, const History& history, std::int64_t steps,
                       const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  if (const std::string problem = reproduce_problem(first, history); !problem.empty())
    throw std::runtime_error(problem);
  RecordedTraining training;
  training.config = recorded_config(history.info());
  training.changes = recorded_changes(history);
  training.batches_of = recorded_config(first);
  training.mixtures = mixture_changes(training.changes);
  const std::int64_t recorded_steps = history.steps().size();
  const std::int64_t all = steps < 0 ? recorded_steps : std::min(steps, recorded_steps);
  Reproduction result;
  if (const KernelCheck check = check_kernels(history.info().kernels); check.outcome != KernelCheck::Outcome::equal)
    result.kernels = check.text;
  retrain(
      training, [&](Engine& engine) { return engine.next_step() < all && progress(engine.next_step(), all); },
      [&](const TelemetryFrame& frame) {
        // Reads one value at a time, because a damaged recording may claim any number of steps.
        const std::int64_t at[] = {frame.step};
        const float recorded = history.values_at(Metric::ce_loss, kWholeRun, at).front();
        ++result.compared;
        if (same_loss(frame.ce_loss, recorded)) return true;
        result.differs_at = frame.step;
        result.recorded = recorded;
        result.computed = frame.ce_loss;
        return false;
      });
  return result;
}

RecomputePlan plan_recompute(const History& run, const History& first, const OperandPlace& place, std::int64_t step,
                             std::shared_ptr<const TrainerSnapshot> from, std::string from_file) {
  const StepRange recorded_steps = run.steps();
  if (recorded_steps.empty() || step < recorded_steps.first || step > recorded_steps.last)
    throw std::invalid_argument(fmt::format("run {} has not taken step {}", run.info().name, step));
  const bool whole = recorded_steps.first == 0;
  if (!whole && !from && from_file.empty())
    throw std::invalid_argument(fmt::format("run {} began with step {}, from a checkpoint that is not kept",
                                            run.info().name, recorded_steps.first));
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
    const std::string file = fmt::format("{}/{}/{}.safetensors", folder, checkpoint_step, run_name);
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

OperandScan scan_recorded_step(const RecomputePlan& plan, const std::stop_token& stop,
                               const std::function<void(std::int64_t next)>& step,
                               const std::function<void(int done, int total)>& pass) {
  OperandScan found;
  train_copy(plan, stop, step, [&](Engine& engine) {
    Trainer& copy = *engine.find(0);
    if (scanned_operands(copy.config(), std::nullopt).empty())
      throw std::runtime_error(fmt::format("nothing of run {} is rounded at step {}", copy.config().name, plan.step));
    auto scan = copy.scan_operands(engine.batch(plan.step), std::nullopt, [&](int done, int total) {
      pass(done, total);
      return !stop.stop_requested();
    });
    if (!scan) throw std::runtime_error("cancelled");
    found = std::move(*scan);
  });
  return found;
}

}  // namespace moescope
