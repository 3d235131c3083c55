#include "core/training/engine/reproduce.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/config/config_toml.h"
#include "core/files/text/words.h"
#include "core/numerics/processor.h"
#include "core/training/engine/retrain.h"

namespace moescope {

std::string Reproduction::text() const {
  const std::string steps = std::to_string(compared) + (compared == 1 ? " step" : " steps");
  if (differs_at < 0) return "The same losses to the bit over " + steps + ".";
  return formatted(
             "The losses differ from step %lld on: %.9g recorded, %.9g now; the %lld before are the same to the bit.",
             static_cast<long long>(differs_at), recorded, computed, static_cast<long long>(compared - 1)) +
         (kernels.empty() ? "" : " " + kernels);
}

std::string reproduce_problem(const RunInfo& first, const History& history) {
  const RunInfo& info = history.info();
  if (info.config_toml.empty() || first.config_toml.empty())
    return info.name + " was not trained here: its log has no settings to train from";
  if (history.steps().empty()) return info.name + " has no steps";
  if (history.steps().first != 0)
    return info.name + " begins with step " + std::to_string(history.steps().first) +
           ", resumed or branched off: its state at that step is in a checkpoint, not in the recording";
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
        result.differs_at = frame.step, result.recorded = recorded, result.computed = frame.ce_loss;
        return false;
      });
  return result;
}

}  // namespace moescope
