// Figures of a lesson that are read from a run's history.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cluster/layer_gains.h"
#include "core/lessons/lesson.h"
#include "core/recording/history/history.h"

namespace moescope {

// Modelled gain by DeepEP of a layer of RunFigure::model, if it had the load of a layer of the run. Keeps the last
// result for each layer, because lessons read it four times per second.
class ModelledGains {
 public:
  const LayerGain& find_gain(const RunFigure& figure, int layer, const std::vector<std::uint64_t>& load);

 private:
  std::map<std::string, std::pair<std::vector<std::uint32_t>, LayerGain>> known_;
};

// Returns the figure with this key (lesson_figures()); nullopt until its steps have been taken, or if it is NaN or
// infinite.
std::optional<double> run_figure(std::string_view key, const RunFigure& figure, const History& history,
                                 ModelledGains& modelled);
// Returns the number of steps from the run's newest live change, or from its start, to its newest step.
std::int64_t steps_since_change(const History& history);
std::optional<double> finite(double value);  // nullopt if NaN or infinite

}  // namespace moescope
