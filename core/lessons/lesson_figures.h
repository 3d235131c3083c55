// Figures of a lesson read from live histories, sample tensors and measured layers, and checks judged by them.
//
// Not thread-safe; reading is cheap enough for four times a second (tensor figures are computed once and kept).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/layer_gains.h"
#include "core/lessons/lesson.h"
#include "core/telemetry/history/history.h"

namespace moescope {

// What a figure's key means. Every Metric's key is one, too (core/telemetry/frame/metrics.h).
struct LessonFigureInfo {
  const char* key;
  enum class Source { run, tensor, cluster } source;
  const char* unit;  // "", "%" (a share, shown times 100), "dB", "ms", "steps"
  const char* meaning;
};
std::span<const LessonFigureInfo> lesson_figures();
// Of any figure; nullptr: there is no such key.
const LessonFigureInfo* find_lesson_figure(std::string_view key);

// The run's metric of that key.
std::optional<Metric> metric_named(std::string_view key);

// As on screen: "31.5 dB", "9.6 %", "0.143".
std::string figure_text(const LessonFigure& figure, double value);

struct LessonJudgement {
  enum class State { pending, holds, fails } state = State::pending;  // pending: the figures are not there yet
  std::optional<double> value;
  std::string text;  // "0.143, should be below 0.2"; pending: what is missing
};

class LessonReader {
 public:
  explicit LessonReader(std::vector<LessonTensor> tensors) : tensors_(std::move(tensors)) {}

  void set_histories(std::vector<std::shared_ptr<const History>> histories) { histories_ = std::move(histories); }
  void set_chosen(const LessonFormat& chosen) { chosen_ = chosen; }
  const LessonFormat& chosen() const { return chosen_; }

  // Nothing while the steps that it takes have not been taken (or the figure is not a number).
  std::optional<double> read(const LessonFigure& figure) const;
  LessonJudgement judge(const LessonCheck& check) const;
  // `text` with {name} replaced by the value of that name, "..." while there is none.
  std::string fill_in(const std::string& text, const std::vector<std::pair<std::string, LessonFigure>>& values) const;

 private:
  std::optional<double> read_run(const LessonFigure& figure) const;
  std::optional<double> read_tensor(const LessonFigure& figure) const;
  double modelled_figure(const LessonFigure& figure, int layer, const std::vector<std::uint64_t>& load) const;

  std::vector<LessonTensor> tensors_;
  std::vector<std::shared_ptr<const History>> histories_;
  LessonFormat chosen_;
  mutable std::map<std::string, std::vector<float>> values_;  // of tensors, by name
  mutable std::map<std::string, double> known_;               // tensor figures, by all that they depend on
  mutable std::map<std::string, std::pair<std::vector<std::uint32_t>, LayerGain>> modelled_;  // the last of each layer
};

}  // namespace moescope
