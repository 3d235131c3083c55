// Reads a lesson's figures from live histories, sample tensors and measured layers, and evaluates its checks.
//
// Not thread-safe. Fast enough to be read four times per second, because tensor figures are computed once and kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cluster/layer_model.h"
#include "core/findings/comparison/verdict.h"
#include "core/lessons/lesson.h"
#include "core/recording/history/history.h"

namespace moescope {

// Meaning of a figure's key. The keys of all metrics are figures as well (core/frame/metrics.h).
struct LessonFigureInfo {
  const char* key;
  enum class Source { run, tensor, cluster } source;
  const char* unit;  // "", "%" (a share, shown times 100), "dB", "ms", "steps", "x", or the unit of a metric
  const char* meaning;
};
std::span<const LessonFigureInfo> lesson_figures();
// Returns a figure by its key; nullptr if there is no such key.
const LessonFigureInfo* find_lesson_figure(std::string_view key);

bool is_share(const LessonFigure& figure);  // shown in %
// Returns the text on the screen, rounded as in panels: "31.5 dB", "9.62 %", "0.143".
std::string figure_text(const LessonFigure& figure, double value);

struct LessonJudgement {
  enum class State { pending, holds, fails } state = State::pending;  // pending: figures not known yet
  std::optional<double> value;
  std::string text;  // "0.143"; if not known yet: "not yet"
  std::string note;  // "expected: below 0.2", "6.5 times as high as in run B: 0.22", "not as expected: below 0.2"
};

// Modelled gain by DeepEP of a layer of RunFigure::model, if it had the load of a layer of the run. Keeps the last
// result for each layer, because lessons read it four times per second.
class ModelledGains {
 public:
  const LayerGain& find_gain(const RunFigure& figure, int layer, const std::vector<std::uint64_t>& load);

 private:
  std::map<std::string, std::pair<std::vector<std::uint32_t>, LayerGain>> known_;
};

// Returns the figure with this key (lesson_figures()); nullopt until its steps are taken, or if it is not finite.
std::optional<double> run_figure(std::string_view key, const RunFigure& figure, const History& history,
                                 ModelledGains& modelled);
std::optional<double> finite(double value);  // nullopt if NaN or infinite

class LessonReader {
 public:
  explicit LessonReader(std::vector<LessonTensor> tensors) : tensors_(std::move(tensors)) {}

  void set_histories(std::vector<std::shared_ptr<const History>> histories) { histories_ = std::move(histories); }

  // Returns nullopt until the required steps have been taken, or if the figure is NaN or infinite.
  std::optional<double> read(const LessonFigure& figure) const;
  LessonJudgement judge(const LessonCheck& check) const;
  // Returns `text` with {name} replaced by the value of that name, or by "..." if it is not known yet.
  std::string fill_in(const std::string& text, const std::vector<std::pair<std::string, LessonFigure>>& values) const;

 private:
  struct Limits {
    std::optional<double> above, below, reference;  // reference: value of the figure of which a limit is a multiple
    std::string reference_name;
    bool known = true;
  };
  Limits limits_of(const LessonCheck& check) const;
  Conclusion conclusion(int run) const;  // on the loss of a run beside run A
  std::optional<double> read(const std::string& key, const RunFigure& figure) const;
  std::optional<double> read(const std::string& key, const TensorFigure& figure) const;
  std::optional<double> read(const std::string& key, const ClusterFigure& figure) const;

  std::vector<LessonTensor> tensors_;
  std::vector<std::shared_ptr<const History>> histories_;
  struct KnownTensorFigure {
    std::string key;
    TensorFigure figure;
    double value;
  };
  mutable std::vector<KnownTensorFigure> known_;
  mutable ModelledGains modelled_;
};

}  // namespace moescope
