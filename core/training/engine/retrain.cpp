#include "core/training/engine/retrain.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "core/config/config_field.h"

namespace moescope {
namespace {

constexpr std::size_t kArrayBytes = std::size_t{1} << 20;  // for the histories, which are not read

std::vector<Trainer> trainer_of(const RecordedTraining& recorded) {
  std::vector<Trainer> trainers;
  trainers.push_back(recorded.from                ? Trainer::resume(*recorded.from, recorded.from->config)
                     : recorded.from_file.empty() ? Trainer(recorded.config)
                                                  : Trainer::resume(recorded.from_file));
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

}  // namespace moescope
