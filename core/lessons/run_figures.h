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
#include "core/history/history.h"
#include "core/lessons/lesson.h"

namespace moescope {

// What a model's layer would gain by DeepEP under each layer's load; the last of each is kept, since lessons ask for it
// four times a second.
class ModelledGains {
 public:
  const LayerGain& of(const RunFigure& figure, int layer, const std::vector<std::uint64_t>& load);

 private:
  std::map<std::string, std::pair<std::vector<std::uint32_t>, LayerGain>> known_;
};

// The run's metric of that key.
std::optional<Metric> metric_named(std::string_view key);

// The figure of that key (lesson_figures()). Nothing while the steps that it takes have not been taken, or where it is
// not a number.
std::optional<double> run_figure(std::string_view key, const RunFigure& figure, const History& history,
                                 ModelledGains& modelled);
// From the run's newest live change, or from its start, to its newest step.
std::int64_t steps_since_change(const History& history);
std::optional<double> finite(double value);  // nothing: NaN or infinite

}  // namespace moescope
