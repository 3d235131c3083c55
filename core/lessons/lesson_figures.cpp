#include "core/lessons/lesson_figures.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

#include "core/cluster/calibration.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"
#include "core/frame/metrics.h"
#include "core/numerics/quantize.h"

namespace moescope {
namespace {

using Source = LessonFigureInfo::Source;

constexpr LessonFigureInfo kOwnFigures[] = {
    {"utilisation", Source::run, "", "tokens of an expert over its fair share, all steps of the range together"},
    {"expert_share", Source::run, "%", "share of all chosen slots that goes to an expert"},
    {"expert_bias", Source::run, "", "expert_bias of an expert at the end of the range"},
    {"bias_spread", Source::run, "", "largest minus smallest expert_bias of a layer at the end of the range"},
    {"counts_ratio", Source::run, "",
     "counts of all experts over tokens times top_k, mean over the steps of the range"},
    {"load_correlation", Source::run, "",
     "correlation of the experts' utilisation between step t and step t + lag, over the range: near 1 the same experts "
     "stay hot, near 0 it is noise, below 0 the load oscillates"},
    {"rank_max_over_mean", Source::run, "",
     "token copies that the fullest rank receives over the mean of the ranks, all steps of the range together"},
    {"batch_rank_max_over_mean", Source::run, "",
     "token copies that the fullest rank receives over the mean of the ranks in a single batch, mean over the steps of "
     "the range"},
    {"copies_per_token", Source::run, "", "token copies of the standard all-to-all per token"},
    {"ranks_per_token", Source::run, "", "distinct destination ranks per token: copies after de-duplication"},
    {"nodes_per_token", Source::run, "", "distinct destination nodes per token"},
    {"mxfp8_payload", Source::run, "%", "bytes of a token's row in MXFP8 over its bytes in BF16"},
    {"placed_max_over_mean", Source::run, "",
     "rank_max_over_mean if a balancer had placed the experts by the load of the 50 steps before, `slots_per_rank` (0: "
     "no replicas)"},
    {"domain_bits", Source::run, "bits",
     "mutual information between a slot's domain and its expert, sum p(d,e) log2(p(d,e) / (p(d) p(e))): 0 when no "
     "expert prefers a domain"},
    {"modelled_gain", Source::run, "x",
     "modelled: layer time with the standard all-to-all over that with DeepEP, if `model`'s layer on 8 H200s had this "
     "router's load"},
    {"modelled_deep_ep_ms", Source::run, "ms", "modelled: time of this layer with DeepEP"},
    {"flip_margin_ratio", Source::run, "",
     "median margin of the tokens that flipped over the median margin of all tokens"},
    {"steps_until", Source::run, "steps",
     "steps from the run's newest live change, or its start, until the mean of `of` over 10 steps is below `limit`"},
    {"finding", Source::run, "", "number of findings of the kind `of` that are ongoing at the last step"},
    {"sqnr_db", Source::tensor, "dB", "10 log10(sum x^2 / sum (x - q)^2)"},
    {"underflow", Source::tensor, "%", "share of non-zero values that became zero"},
    {"clipped", Source::tensor, "%", "share of values beyond the format's maximum after scaling"},
    {"clipped_blocks", Source::tensor, "%", "share of blocks with such a value"},
    {"measured_gain", Source::cluster, "x", "measured layer time with the standard all-to-all over that with DeepEP"},
    {"measured_layer_ms", Source::cluster, "ms", "measured layer time with the standard all-to-all"},
    {"measured_deep_ep_ms", Source::cluster, "ms", "measured layer time with DeepEP"},
    {"measured_comm_ms", Source::cluster, "ms",
     "measured time of the layer's two dispatches and two combines alone, standard all-to-all"},
    {"measured_deep_ep_comm_ms", Source::cluster, "ms", "the same time with DeepEP"},
    {"measured_slowdown", Source::cluster, "x",
     "measured layer time with the standard all-to-all over that under forced round-robin"},
    {"measured_deep_ep_slowdown", Source::cluster, "x", "the same quotient with DeepEP"},
    {"measured_copies", Source::cluster, "", "copies per token that DeepEP sent in the measurement"},
    {"measured_rank_max_over_mean", Source::cluster, "", "load of the fullest rank over the mean in the measurement"},
};

double tensor_figure(const std::string& key, const LessonTensor& tensor, LessonColumns columns,
                     const MatrixFormat& format, const std::vector<float>& values) {
  const std::size_t rows = tensor.rows, cols = tensor.cols;
  std::vector<float> q(values.size());
  QuantSums sums;
  quantize_operand({{values.data(), rows, cols, cols}, format.format, format.axis, {}, &sums}, {q.data(), rows, cols});
  if (key == "clipped") return sums.clipped_share();
  if (key == "clipped_blocks") return sums.clipped_blocks_share();
  double x2 = 0, err2 = 0, nonzero = 0, lost = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!counts(tensor, columns, i % cols)) continue;
    const double x = values[i], error = x - q[i];
    x2 += x * x, err2 += error * error;
    nonzero += x != 0, lost += x != 0 && q[i] == 0;
  }
  return key == "underflow" ? lost / nonzero : 10 * std::log10(x2 / err2);
}

// Reads the 8-GPU file, the only one with both kinds of all-to-all.
const MeasuredLayer* measured_layer(const std::string& model, const std::string& routing) {
  static const Calibration calibration = parse_calibration(asset("calibration/h200x8.json"), "calibration/h200x8.json");
  for (const MeasuredLayer& layer : calibration.layers)
    if (layer.shape.model == model && layer.routing.label == routing) return &layer;
  return nullptr;
}

double cluster_figure(const std::string& key, const ClusterFigure& figure) {
  const MeasuredLayer* layer = measured_layer(figure.model, figure.routing);
  const MeasuredLayer* even = measured_layer(figure.model, "round_robin");
  if (!layer || !even) return NAN;
  const auto& times = layer->times;
  if (key == "measured_gain") return times.standard_layer_ms / times.deep_ep_layer_ms;
  if (key == "measured_layer_ms") return times.standard_layer_ms;
  if (key == "measured_deep_ep_ms") return times.deep_ep_layer_ms;
  if (key == "measured_comm_ms") return times.standard_comm_ms;
  if (key == "measured_deep_ep_comm_ms") return times.deep_ep_comm_ms;
  if (key == "measured_slowdown") return times.standard_layer_ms / even->times.standard_layer_ms;
  if (key == "measured_deep_ep_slowdown") return times.deep_ep_layer_ms / even->times.deep_ep_layer_ms;
  if (key == "measured_copies") return layer->routing.copies_per_token_deep_ep;
  return layer->routing.rank_max_over_mean;
}

// Returns "above 0.5", "between 0.4 and 2".
std::string range_text(const LessonFigure& figure, std::optional<double> above, std::optional<double> below) {
  if (above && below) return "between " + figure_text(figure, *above) + " and " + figure_text(figure, *below);
  return above ? "above " + figure_text(figure, *above) : "below " + figure_text(figure, *below);
}

// Returns "6.5 times as much", "12 % less"; for decibels the difference.
std::string comparison_text(const LessonFigure& figure, double value, double reference) {
  const std::string direction = value > reference ? " more" : " less";
  if (std::string_view(find_lesson_figure(figure.key)->unit) == "dB")
    return figure_text(figure, std::fabs(value - reference)) + direction;
  const double ratio = reference > 0 ? value / reference : NAN;
  if (!std::isfinite(ratio)) return value > reference ? "more" : "not more";
  if (ratio >= 2) return formatted("%.2g times as much", ratio);
  const double relative_distance = std::fabs(ratio - 1);
  return relative_distance < 0.0005
             ? "the same"
             : formatted(relative_distance < 0.01 ? "%.1f %%" : "%.0f %%", 100 * relative_distance) + direction;
}

// Returns the run or the steps of the reference, if they differ from those of the figure.
std::string name_of_reference(const LessonFigure& figure, const LessonFigure& reference) {
  const auto* a = std::get_if<RunFigure>(&figure.source);
  const auto* b = std::get_if<RunFigure>(&reference.source);
  if (!a || !b) return "compared with";
  if (a->run != b->run) return std::string("run ") + static_cast<char>('A' + b->run);
  if (!b->from || !b->to) return "compared with";
  const std::string steps = "steps " + std::to_string(*b->from) + " to " + std::to_string(*b->to);
  return b->since_change ? steps + " after the change" : steps;
}

}  // namespace

std::span<const LessonFigureInfo> lesson_figures() {
  static const std::vector<LessonFigureInfo> rows = [] {
    std::vector<LessonFigureInfo> all(std::begin(kOwnFigures), std::end(kOwnFigures));
    for (int m = 0; m < kNumMetrics; ++m) {
      const MetricInfo& info = metric_info(static_cast<Metric>(m));
      const bool share = std::string_view(info.unit) == "share";
      all.push_back({info.key, Source::run, share ? "%" : info.unit, info.formula});
    }
    return all;
  }();
  return rows;
}

const LessonFigureInfo* find_lesson_figure(std::string_view key) {
  for (const LessonFigureInfo& info : lesson_figures())
    if (key == info.key) return &info;
  return nullptr;
}

std::string figure_text(const LessonFigure& figure, double value) {
  const LessonFigureInfo* info = find_lesson_figure(figure.key);
  assert(info);
  const std::string_view unit = info->unit;
  if (unit == "%") return formatted(std::fabs(value) < 0.001 && value != 0 ? "%.2f %%" : "%.1f %%", 100 * value);
  if (unit == "dB") return formatted("%.1f dB", value);
  if (unit == "x") return formatted("%.2fx", value);
  if (unit == "steps") return formatted("%.0f steps", value);
  const std::string number = formatted(std::fabs(value) >= 100 ? "%.0f" : "%.3g", value);
  return unit.empty() || unit == "nats/token" ? number : number + " " + info->unit;
}

std::optional<double> LessonReader::read(const LessonFigure& figure) const {
  std::optional<double> value = std::visit([&](const auto& source) { return read(figure.key, source); }, figure.source);
  if (value) *value *= figure.times;
  return value;
}

std::optional<double> LessonReader::read(const std::string& key, const RunFigure& figure) const {
  if (figure.run >= static_cast<int>(histories_.size())) return std::nullopt;
  return run_figure(key, figure, *histories_[figure.run], modelled_);
}

std::optional<double> LessonReader::read(const std::string& key, const ClusterFigure& figure) const {
  return finite(cluster_figure(key, figure));
}

std::optional<double> LessonReader::read(const std::string& key, const TensorFigure& figure) const {
  const auto tensor = std::find_if(tensors_.begin(), tensors_.end(),
                                   [&](const LessonTensor& candidate) { return candidate.name == figure.tensor; });
  if (tensor == tensors_.end()) return std::nullopt;
  const MatrixFormat& format = figure.format ? *figure.format : chosen_;
  for (const KnownTensorFigure& known : known_)
    if (std::tie(known.key, known.tensor, known.columns, known.format) ==
        std::tie(key, figure.tensor, figure.columns, format))
      return finite(known.value);
  std::vector<float>& values = values_[tensor->name];
  if (values.empty()) values = make_tensor(*tensor);
  const double value = tensor_figure(key, *tensor, figure.columns, format, values);
  known_.push_back({key, figure.tensor, figure.columns, format, value});
  return finite(value);
}

// Returns a value, or, for a figure that counts steps, how many steps have been taken so far.
std::string LessonReader::value_text(const LessonFigure& figure, const std::optional<double>& value) const {
  if (value) return figure_text(figure, *value);
  const auto* of_run = std::get_if<RunFigure>(&figure.source);
  if (figure.key != "steps_until" || !of_run || of_run->run >= static_cast<int>(histories_.size())) return "not yet";
  const std::int64_t waited = steps_since_change(*histories_[of_run->run]);
  return waited > 0 ? std::to_string(waited) + " so far, not yet" : "not yet";
}

LessonReader::Limits LessonReader::limits_of(const LessonCheck& check) const {
  Limits limits;
  const auto take = [&](const std::optional<LessonCheck::Bound>& bound, std::optional<double>& limit) {
    if (!bound) return;
    limit = bound->figure ? read(*bound->figure) : bound->number;
    limits.known &= limit.has_value();
    if (!bound->figure) return;
    LessonFigure once = *bound->figure;
    once.times = check.figure.times;
    limits.reference = read(once);
    limits.reference_name = name_of_reference(check.figure, once);
  };
  take(check.above, limits.above);
  take(check.below, limits.below);
  return limits;
}

LessonJudgement LessonReader::judge(const LessonCheck& check) const {
  LessonJudgement result;
  result.value = read(check.figure);
  result.text = value_text(check.figure, result.value);
  const Limits limits = limits_of(check);
  if (!result.value || !limits.known) return result;
  const auto& [above, below, reference, name, known] = limits;
  const bool holds = (!above || *result.value > *above) && (!below || *result.value < *below);
  result.state = holds ? LessonJudgement::State::holds : LessonJudgement::State::fails;
  const std::string expected = range_text(check.figure, above, below);
  if (reference) result.note = name + ": " + figure_text(check.figure, *reference) + "; ";
  if (!holds)
    result.note += "not as expected: " + expected;
  else
    result.note += reference ? comparison_text(check.figure, *result.value, *reference) : "expected: " + expected;
  return result;
}

std::string LessonReader::fill_in(const std::string& text,
                                  const std::vector<std::pair<std::string, LessonFigure>>& values) const {
  std::string filled = text;
  for (const auto& [name, figure] : values) {
    const std::string place = "{" + name + "}";
    const auto value = read(figure);
    const std::string shown = value ? figure_text(figure, *value) : "...";
    for (std::size_t at = filled.find(place); at != std::string::npos; at = filled.find(place, at + shown.size()))
      filled.replace(at, place.size(), shown);
  }
  return filled;
}

}  // namespace moescope
