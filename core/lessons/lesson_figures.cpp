#include "core/lessons/lesson_figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <ranges>

#include "core/cluster/calibration.h"
#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/files/text/words.h"
#include "core/findings/findings.h"
#include "core/frame/frame.h"
#include "core/frame/margin_counts.h"
#include "core/frame/metrics.h"
#include "core/frame/router_stats.h"
#include "core/frame/specialisation.h"
#include "core/numerics/quantize.h"
#include "core/numerics/rng.h"
#include "core/numerics/statistics.h"

namespace moescope {

namespace {

using Source = LessonFigureInfo::Source;

constexpr LessonFigureInfo kOwnFigures[] = {
    {"utilisation", Source::run, "x", "tokens of an expert over its fair share, mean over the steps of the range"},
    {"expert_gradient", Source::run, "", "norm of the gradient of an expert's weights before clipping, last measured"},
    {"expert_update", Source::run, "", "norm of the change of an expert's weights in a step, last measured"},
    {"bias_spread", Source::run, "", "largest minus smallest expert_bias of a layer at the end of the range"},
    {"bias_change", Source::run, "", "largest change of an expert_bias from the first to the last step of the range"},
    {"counts_ratio", Source::run, "x",
     "counts of all experts over tokens times top_k, mean over the steps of the range"},
    {"load_correlation", Source::run, "",
     "correlation of the experts' load between step t and step t + lag, over the range: near 1 the same experts "
     "stay hot, near 0 it is noise, below 0 the load oscillates"},
    {"rank_max_over_mean", Source::run, "x the mean",
     "token copies that the fullest rank receives over the mean of the ranks, all steps of the range together"},
    {"network_saved", Source::run, "%",
     "share of the bytes between nodes that DeepEP saves, dispatch, mean over the steps of the range"},
    {"domain_information", Source::run, "nats",
     "mutual information between a slot's domain and its expert, sum p(d,e) ln(p(d,e) / (p(d) p(e))): 0 when no "
     "expert prefers a domain"},
    {"modelled_deep_ep_ms", Source::run, "ms",
     "modelled: time of `model`'s layer on 8 H200s with DeepEP, if it had this router's load"},
    {"flip_margin_ratio", Source::run, "x",
     "median margin of the tokens that flipped over that of all tokens, estimated from the counts by margin"},
    {"steps_until", Source::run, "steps",
     "from the run's newest live change, or start, until the mean of `of` over the last 10 steps is below `limit`"},
    {"loss_gap", Source::run, "nats/token",
     "mean loss minus run A's over the range; without one over the judged steps, as in the table of verdicts"},
    {"loss_gap_half", Source::run, "nats/token",
     "half of the interval around loss_gap, from the noise twins among the runs; gaps below it may be chance"},
    {"part_gradient_snr_db", Source::run, "dB",
     "gradient_snr_db of the tensors `of` of a layer alone, such as \"routed experts\", mean over the measurements"},
    {"finding", Source::run, "", "number of findings of the kind `of` that are ongoing at the last step"},
    {"sqnr_db", Source::tensor, "dB", "10 log10(sum x^2 / sum (x - q)^2)"},
    {"underflow", Source::tensor, "%", "share of non-zero values that became zero"},
    {"clipped", Source::tensor, "%", "share of values beyond the format's maximum after scaling"},
    {"clipped_blocks", Source::tensor, "%", "share of blocks with such a value"},
    {"measured_gain", Source::cluster, "x", "measured layer time with the standard all-to-all over that with DeepEP"},
    {"measured_deep_ep_ms", Source::cluster, "ms", "measured layer time with DeepEP"},
};

double tensor_figure(const std::string& key, const LessonTensor& tensor, const TensorFigure& figure,
                     const std::vector<float>& values) {
  const std::size_t rows = tensor.rows, cols = tensor.cols;
  std::vector<float> q(values.size());
  QuantSums sums;
  const auto& [format, axis] = figure.format;
  quantize_operand({{values.data(), rows, cols, cols}, format, axis, {}, &sums}, {q.data(), rows, cols});
  if (key == "clipped") return sums.clipped_share();
  if (key == "clipped_blocks") return sums.clipped_blocks_share();
  double x2 = 0, err2 = 0, nonzero = 0, lost = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (figure.without_outlier && to_int(i % cols) == tensor.outlier_column) continue;
    const double x = values[i], error = x - q[i];
    x2 += x * x;
    err2 += error * error;
    nonzero += x != 0;
    lost += x != 0 && q[i] == 0;
  }
  return key == "underflow" ? lost / nonzero : 10 * std::log10(x2 / err2);
}

std::string range_text(const LessonFigure& figure, std::optional<double> above, std::optional<double> below) {
  if (figure.key == "finding") return above ? "found" : "not found";
  if (above && below) return "between " + figure_text(figure, *above) + " and " + figure_text(figure, *below);
  return above ? "above " + figure_text(figure, *above) : "below " + figure_text(figure, *below);
}

// Returns "6.5 times as high as", "12 % lower than"; for decibels and shares the difference. It is of the shown
// numbers, so that a reader gets the same.
std::string comparison_text(const LessonFigure& figure, double value, double reference) {
  const std::string text = figure_text(figure, value), reference_text = figure_text(figure, reference);
  if (text == reference_text) return "the same as";
  const std::string direction = value > reference ? "higher than" : "lower than";
  const double shown = std::strtod(text.c_str(), nullptr), other = std::strtod(reference_text.c_str(), nullptr);
  const double distance = std::fabs(shown - other);
  if (std::string_view(find_lesson_figure(figure.key)->unit) == "dB")
    return figure_text(figure, distance) + " " + direction;
  if (is_share(figure)) return fmt::format("{:.{}f} percentage points {}", distance, distance < 1 ? 2 : 1, direction);
  const double ratio = other > 0 ? shown / other : NAN;
  if (!std::isfinite(ratio)) return direction;
  if (ratio >= 2) return fmt::format("{:.{}f} times as high as", ratio, ratio < 10 ? 1 : 0);
  const double relative_distance = std::fabs(ratio - 1);
  const int places = int{relative_distance < 0.1} + int{relative_distance < 0.001};
  return fmt::format("{:.{}f} % {}", 100 * relative_distance, places, direction);
}

// Returns "layer 3" or "the expert with the highest value".
std::string name_of_pick(const LessonPick& pick, const std::string& noun) {
  if (pick.rule == LessonPick::Of::one) return fmt::format("{} {}", noun, pick.index);
  if (pick.rule == LessonPick::Of::mean) return fmt::format("the mean of the {}s", noun);
  return fmt::format("the {} with the {} value", noun, pick.rule == LessonPick::Of::max ? "highest" : "lowest");
}

// Returns "steps 0 to 3 after the change", "the last 50 steps".
std::string name_of_steps(const RunFigure& figure) {
  if (!figure.from || !figure.to)
    return figure.last == 1 ? "the last step" : fmt::format("the last {} steps", figure.last);
  const std::string steps = *figure.from == *figure.to ? fmt::format("step {}", *figure.from)
                                                       : fmt::format("steps {} to {}", *figure.from, *figure.to);
  return figure.since_change ? steps + " after the change" : steps;
}

// Returns the run, the layer, the expert and the steps of `b` that differ from those of `a`.
std::string name_of_difference(const RunFigure& a, const RunFigure& b) {
  std::vector<std::string> names;
  if (a.run != b.run) names.push_back(std::string("run ") + static_cast<char>('A' + b.run));
  if (a.layer != b.layer) names.push_back(name_of_pick(b.layer, "layer"));
  if (a.expert != b.expert) names.push_back(name_of_pick(b.expert, "expert"));
  if (name_of_steps(a) != name_of_steps(b)) names.push_back(name_of_steps(b));
  return names.empty() ? "in the comparison" : "in " + joined(names, ", ");
}

// Returns what differs from the figure: the run, the layer and so on, or the blocks or the rule of a tensor.
std::string name_of_reference(const LessonFigure& figure, const LessonFigure& reference) {
  const auto* tensor = std::get_if<TensorFigure>(&figure.source);
  const auto* other = std::get_if<TensorFigure>(&reference.source);
  if (tensor && other && tensor->format != other->format) {
    if (tensor->format.axis != other->format.axis) return "with blocks along rows";
    if (tensor->format.format.block != other->format.format.block)
      return fmt::format("with blocks of {}", other->format.format.block);
    const OperandFormat &format = tensor->format.format, &compared = other->format.format;
    const bool other_elements = format.scheme != compared.scheme || format.element != compared.element;
    std::string name = other_elements ? element_name(compared) : scale_rule_name(compared.rule);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    return (other_elements ? "in " : "under ") + name;
  }
  if (tensor && other && tensor->tensor != other->tensor) return "in the tensor " + other->tensor;
  const auto* a = std::get_if<RunFigure>(&figure.source);
  const auto* b = std::get_if<RunFigure>(&reference.source);
  return a && b ? name_of_difference(*a, *b) : "in the comparison";
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

bool is_share(const LessonFigure& figure) {
  return std::string_view(find_lesson_figure(figure.key)->unit) == "%";
}

std::string figure_text(const LessonFigure& figure, double value) {
  const LessonFigureInfo* info = find_lesson_figure(figure.key);
  assert(info);
  value = static_cast<float>(value);  // as the panels have it, so that both round a value halfway alike
  const std::string_view unit = info->unit;
  if (figure.key == "finding") return value > 0 ? "found" : "not found";
  const double size = std::fabs(value);
  const int share_places = size == 0 ? 0 : 1 + int{size < 0.1} + int{size < 0.001};
  if (is_share(figure)) return fmt::format("{:.{}f} %", 100 * value, share_places);
  if (unit == "dB") return fmt::format("{:.1f} dB", value);
  if (unit == "x") return fmt::format("{:.{}f}x", value, size < 0.1 ? decimal_places(value, 3) : 2);
  if (unit == "steps") return fmt::format("{:.0f} steps", value);
  if (figure.key.starts_with("loss_gap"))
    return fmt::format("{}{:.4f} {}", figure.key == "loss_gap" && value >= 0 ? "+" : "", value, unit);
  // At least three significant digits, so that the ratio of two shown values is that of the values.
  const int least_places = size > 0 ? 2 - static_cast<int>(std::floor(std::log10(size))) : 0;
  const int places = std::max(least_places, decimal_places(value, unit == "nats/token" ? 4 : 3));
  return fmt::format("{:.{}f}{}{}", value, places, unit.empty() ? "" : " ", unit);
}

std::optional<double> LessonReader::read(const LessonFigure& figure) const {
  std::optional<double> value = std::visit([&](const auto& source) { return read(figure.key, source); }, figure.source);
  if (value) *value *= figure.times;
  return value;
}

Conclusion LessonReader::conclusion(int run) const {
  const auto config = [this](std::size_t place) {
    return parse_config(histories_[place]->info().config_toml, "").config;
  };
  std::vector<PairedRun> twins;
  for (std::size_t place = 1; place < histories_.size(); ++place)
    if (is_noise_twin(config(0), config(place)))
      twins.push_back({histories_[place], same_start(config(0), config(place))});
  const int candidates = to_int(histories_.size() - 1 - twins.size());
  return conclude(histories_[0], {histories_[run], same_start(config(0), config(run))}, twins,
                  {kRelevantGap, candidates});
}

std::optional<double> LessonReader::read(const std::string& key, const RunFigure& figure) const {
  if (figure.run >= to_int(histories_.size())) return std::nullopt;
  if (key == "loss_gap" && figure.from) {
    RunFigure figure_of_a = figure;
    figure_of_a.run = 0;
    const auto loss = read("ce_loss", figure), loss_of_a = read("ce_loss", figure_of_a);
    return loss && loss_of_a ? std::optional(*loss - *loss_of_a) : std::nullopt;
  }
  if (key == "loss_gap") return finite(conclusion(figure.run).gap);
  if (key == "loss_gap_half") return finite(conclusion(figure.run).half_width);
  return run_figure(key, figure, *histories_[figure.run], modelled_);
}

std::optional<double> LessonReader::read(const std::string& key, const ClusterFigure& figure) const {
  for (const auto& [shape, routing, times] : h200_calibration().layers)  // of 8 GPUs, with both kinds of all-to-all
    if (shape.model == figure.model && routing.label == figure.routing)
      return finite(key == "measured_gain" ? times.standard_layer_ms / times.deep_ep_layer_ms : times.deep_ep_layer_ms);
  return std::nullopt;
}

std::optional<double> LessonReader::read(const std::string& key, const TensorFigure& figure) const {
  const auto tensor = std::ranges::find(tensors_, figure.tensor, &LessonTensor::name);
  if (tensor == tensors_.end()) return std::nullopt;
  for (const KnownTensorFigure& known : known_)
    if (known.key == key && known.figure == figure) return finite(known.value);
  const double value = tensor_figure(key, *tensor, figure, make_tensor(*tensor));
  known_.push_back({key, figure, value});
  return finite(value);
}

LessonReader::Limits LessonReader::limits_of(const LessonCheck& check) const {
  Limits limits;
  const auto take = [&](const std::optional<LessonCheck::Bound>& bound, std::optional<double>& limit) {
    if (!bound) return;
    limit = bound->figure ? read(*bound->figure) : bound->number;
    limits.known &= limit.has_value();
    if (!bound->figure || bound->figure->key != check.figure.key) return;
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
  result.text = result.value ? figure_text(check.figure, *result.value) : "not yet";
  const Limits limits = limits_of(check);
  if (!result.value || !limits.known) return result;
  const auto& [above, below, reference, name, known] = limits;
  const bool holds = (!above || *result.value > *above) && (!below || *result.value < *below);
  result.state = holds ? LessonJudgement::State::holds : LessonJudgement::State::fails;
  if (reference)
    result.note = fmt::format("{} {}: {}", comparison_text(check.figure, *result.value, *reference), name,
                              figure_text(check.figure, *reference));
  if (!holds) result.note += (reference ? "; " : "") + ("not as expected: " + range_text(check.figure, above, below));
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

std::vector<float> make_tensor(const LessonTensor& tensor) {
  constexpr int kPatch = 32;
  const RandomStream values(tensor.seed, "lesson " + tensor.name);
  const RandomStream spreads(tensor.seed, "lesson spread " + tensor.name);
  const RandomStream patches(tensor.seed, "lesson patches " + tensor.name);
  std::vector<float> out;
  out.reserve(tensor.rows * static_cast<std::size_t>(tensor.cols));
  for (int r = 0; r < tensor.rows; ++r)
    for (int c = 0; c < tensor.cols; ++c) {
      const std::uint64_t n = out.size();
      const std::uint64_t patch = static_cast<std::uint64_t>(r) << 32 | static_cast<std::uint64_t>(c / kPatch);
      double factor = std::exp2(-tensor.spread * spreads.uniform(n) - tensor.patch_spread * patches.uniform(patch));
      if (c == tensor.outlier_column) factor *= tensor.outlier_factor;
      out.push_back(static_cast<float>((tensor.mean + tensor.sigma * values.normal(n)) * factor));
    }
  return out;
}

namespace {

using Of = LessonPick::Of;

// Returns the statistic over several layers, experts or steps. Skips missing values; NaN if there are none.
double fold(Of rule, int index, std::vector<double> values) {
  if (rule == Of::one) return index >= 0 && index < to_int(values.size()) ? values[index] : NAN;
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return NAN;
  if (rule == Of::mean) return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
  return rule == Of::max ? std::ranges::max(values) : std::ranges::min(values);
}

std::optional<std::int64_t> newest_change(const History& history) {
  std::optional<std::int64_t> step;
  for (const Marker& marker : history.markers())
    if (marker.kind == kChangeKind) step = marker.step;
  return step;
}

// Returns the steps of the figure; an empty range until all of them have been taken.
StepRange stretch(const RunFigure& figure, const History& history) {
  const StepRange recorded_steps = history.steps();
  if (!figure.from) {
    const StepRange range{std::min(recorded_steps.last, figure.until) - figure.last + 1,
                          std::min(recorded_steps.last, figure.until)};
    return recorded_steps.empty() || range.first < recorded_steps.first ? StepRange{} : range;
  }
  const auto origin = figure.since_change ? newest_change(history) : std::optional<std::int64_t>(0);
  if (!origin) return {};
  const StepRange range{*origin + *figure.from, *origin + figure.to.value_or(*figure.from)};
  return recorded_steps.empty() || range.last > recorded_steps.last ? StepRange{} : range;
}

std::vector<int> layers_of(const RunFigure& figure, const History& history) {
  return figure.layer.rule == Of::one ? std::vector{figure.layer.index} : history.info().moe_layers;
}

std::vector<std::shared_ptr<const TelemetryFrame>> frames_of(const History& history, StepRange range) {
  std::vector<std::shared_ptr<const TelemetryFrame>> frames;
  for (const std::int64_t step : history.steps_in(range))
    if (auto frame = history.frame_at(step); frame && frame->step == step) frames.push_back(std::move(frame));
  return frames;
}

using Frames = std::span<const std::shared_ptr<const TelemetryFrame>>;

// Returns the slots of every expert, summed over all frames.
std::vector<std::uint64_t> loads(Frames frames, int layer) {
  std::vector<std::uint64_t> slots;
  for (const auto& frame : frames) {
    const RouterFrame* router = find_router(frame.get(), layer);
    if (!router) continue;
    slots.resize(router->tokens_per_expert.size());
    for (std::size_t e = 0; e < slots.size(); ++e) slots[e] += router->tokens_per_expert[e];
  }
  return slots;
}

// Counts each step alike, as the maps of the load do: without padding, steps have different numbers of tokens.
std::vector<double> utilisations(Frames frames, int layer) {
  std::vector<double> means;
  for (std::size_t t = 0; t < frames.size(); ++t) {
    const std::vector<std::uint64_t> slots = loads(frames.subspan(t, 1), layer);
    const double fair_share = std::accumulate(slots.begin(), slots.end(), 0.0) / slots.size();
    means.resize(slots.size());
    for (std::size_t e = 0; e < slots.size(); ++e) means[e] += slots[e] / fair_share / frames.size();
  }
  return means;
}

std::vector<double> biases(Frames frames, int layer) {
  const RouterFrame* router = frames.empty() ? nullptr : find_router(frames.back().get(), layer);
  if (!router) return {};
  return {router->expert_bias.begin(), router->expert_bias.end()};
}

// Pearson correlation of u_e(t) - 1 with u_e(t + lag) - 1, over all experts and steps of the range.
double load_correlation(Frames frames, int layer, std::size_t lag) {
  std::vector<std::vector<double>> rows;
  for (std::size_t t = 0; t < frames.size(); ++t) rows.push_back(utilisations(frames.subspan(t, 1), layer));
  Correlation correlation;
  for (std::size_t t = 0; t + lag < rows.size(); ++t)
    for (std::size_t e = 0; e < std::min(rows[t].size(), rows[t + lag].size()); ++e)
      correlation.add(rows[t][e] - 1, rows[t + lag][e] - 1);
  return correlation.value();
}

// Returns a norm of each expert in the newest frame that has it.
std::vector<double> norms(Frames frames, int layer, std::vector<float> SpecialisationFrame::*norm) {
  for (const auto& frame : std::views::reverse(frames))
    for (const SpecialisationFrame& measured : frame->specialisation)
      if (measured.layer == layer) return {(measured.*norm).begin(), (measured.*norm).end()};
  return {};
}

double rank_max_over_mean(Frames frames, int layer) {
  double copies = 0;
  std::vector<double> received;
  for (const auto& frame : frames) {
    const RouterFrame* router = find_router(frame.get(), layer);
    if (!router || router->volume.ranks == 0) continue;
    const VolumeFrame& volume = router->volume;
    copies += std::accumulate(volume.copies_RR.begin(), volume.copies_RR.end(), 0.0);
    received.resize(volume.ranks);
    std::ranges::transform(received, received_by_rank(volume.copies_RR, volume.ranks), received.begin(), std::plus());
  }
  if (received.empty()) return NAN;
  return *std::max_element(received.begin(), received.end()) * received.size() / copies;
}

double flip_margin_ratio(Frames frames) {
  MarginCounts counts;
  for (const auto& frame : frames)
    for (const FlipFrame& flip : frame->flips) counts.add(flip);
  return half_octave_median(counts.flipped) / half_octave_median(counts.tokens);
}

double steps_until(const RunFigure& figure, const History& history) {
  constexpr std::int64_t kMean = 10;
  const auto change = newest_change(history);
  const auto metric = find_scalar(figure.argument);
  if (!metric) return NAN;
  const StepRange range{change.value_or(0), history.steps().last};
  if (range.size() < kMean) return NAN;
  const int layer = figure.layer.rule == Of::one ? figure.layer.index : kWholeRun;
  const std::vector<float> values = history.values_in(*metric, layer, range);
  for (std::size_t i = kMean; i <= values.size(); ++i) {
    const double sum = std::accumulate(values.begin() + (i - kMean), values.begin() + i, 0.0);
    if (sum / kMean < figure.limit) return static_cast<double>(i);
  }
  return NAN;
}

double metric_figure(const RunFigure& figure, Metric metric, const History& history, StepRange range) {
  std::vector<double> over_layers;
  std::vector<int> layers = {kWholeRun};
  if (metric_info(metric).run_value != RunValue::alone && figure.layer.rule != Of::mean)
    layers = layers_of(figure, history);
  for (const int layer : layers) {
    const std::vector<float> values = history.values_in(metric, layer, range);
    over_layers.push_back(fold(Of::mean, 0, {values.begin(), values.end()}));
  }
  return fold(figure.layer.rule == Of::one ? Of::mean : figure.layer.rule, 0, over_layers);
}

double network_saved(Frames frames, int layer) {
  std::vector<double> shares;
  for (const auto& frame : frames)
    if (const RouterFrame* router = find_router(frame.get(), layer); router && router->volume.ranks > 0)
      shares.push_back(saved_by_deepep(router->volume));
  return fold(Of::mean, 0, shares);
}

// Plug-in estimate of the mutual information of domain and expert, in nats per slot.
double domain_information(Frames frames, int layer, std::size_t domains) {
  SpecialisationFrame sum;
  for (const auto& frame : frames)
    for (const SpecialisationFrame& counts : frame->specialisation)
      if (counts.layer == layer) accumulate(sum, counts);
  if (sum.domain_DE.empty() || domains == 0) return NAN;
  const std::size_t experts = sum.domain_DE.size() / domains;
  const Margins sums(sum.domain_DE, experts);
  double nats = 0;
  for (std::size_t i = 0; i < sum.domain_DE.size(); ++i) {
    const double n = sum.domain_DE[i];
    if (n > 0) nats += n / sums.total * std::log(n * sums.total / (sums.rows[i / experts] * sums.columns[i % experts]));
  }
  return nats;
}

double part_gradient_snr(Frames frames, int layer, std::string_view part) {
  std::vector<double> measured;
  for (const auto& frame : frames)
    for (const GradientFrame& gradient : frame->gradients)
      if (gradient.layer == layer && gradient_group_name(gradient.group) == part) measured.push_back(gradient.snr_db);
  return fold(Of::mean, 0, measured);
}

double findings_of(const std::string& kind, const History& history) {
  // A pointer without ownership, because the caller holds the history during the scan.
  const auto all = find_all(HistoryPtr(HistoryPtr(), &history));
  return std::ranges::count_if(
      all, [&](const Finding& finding) { return finding.ongoing && finding_kind_info(finding.kind).name == kind; });
}

double layer_figure(std::string_view key, const RunFigure& figure, const History& history, Frames frames, int layer) {
  const Of expert = figure.expert.rule;
  if (key == "utilisation") return fold(expert, figure.expert.index, utilisations(frames, layer));
  if (key == "expert_gradient" || key == "expert_update") {
    const auto norm =
        key == "expert_update" ? &SpecialisationFrame::update_norm_E : &SpecialisationFrame::gradient_norm_E;
    return fold(expert, figure.expert.index, norms(frames, layer, norm));
  }
  if (key == "part_gradient_snr_db") return part_gradient_snr(frames, layer, figure.argument);
  if (key == "network_saved") return network_saved(frames, layer);
  if (key == "domain_information") return domain_information(frames, layer, history.info().domains.size());
  if (key == "bias_spread") {
    const std::vector<double> all = biases(frames, layer);
    return fold(Of::max, 0, all) - fold(Of::min, 0, all);
  }
  if (key == "bias_change") {
    const std::vector<double> first = biases(frames.first(std::min<std::size_t>(frames.size(), 1)), layer);
    std::vector<double> changes = biases(frames, layer);
    std::ranges::transform(changes, first, changes.begin(), [](double b, double a) { return std::abs(b - a); });
    return fold(Of::max, 0, changes);
  }
  if (key == "counts_ratio") {
    const std::vector<std::uint64_t> counts = loads(frames, layer);
    const double slots = static_cast<double>(history.info().tokens_per_step) * history.info().top_k;
    return std::accumulate(counts.begin(), counts.end(), 0.0) / (slots * frames.size());
  }
  if (key == "load_correlation") return load_correlation(frames, layer, figure.lag);
  return rank_max_over_mean(frames, layer);
}

}  // namespace

const LayerGain& ModelledGains::find_gain(const RunFigure& figure, int layer, const std::vector<std::uint64_t>& load) {
  const std::vector<std::uint32_t> counts(load.begin(), load.end());
  auto& [known, gain] = known_[fmt::format("{}{}{}", figure.model, static_cast<char>('A' + figure.run), layer)];
  if (known != counts) gain = layer_gain_of_load(figure.model, known = counts);
  return gain;
}

std::optional<double> run_figure(std::string_view key, const RunFigure& figure, const History& history,
                                 ModelledGains& modelled) {
  if (key.starts_with("loss_gap")) return std::nullopt;  // of several runs: LessonReader
  if (key == "steps_until") return finite(steps_until(figure, history));
  const StepRange range = stretch(figure, history);
  if (range.empty()) return std::nullopt;
  if (key == "finding") return findings_of(figure.argument, history);
  if (const auto metric = find_scalar(key)) return finite(metric_figure(figure, *metric, history, range));
  const auto frames = frames_of(history, range);
  if (key == "flip_margin_ratio") return finite(flip_margin_ratio(frames));
  std::vector<double> over_layers;
  for (const int layer : layers_of(figure, history))
    if (key != "modelled_deep_ep_ms")
      over_layers.push_back(layer_figure(key, figure, history, frames, layer));
    else if (const auto load = loads(frames, layer); !load.empty())
      over_layers.push_back(modelled.find_gain(figure, layer, load).modelled_ms);
  return finite(fold(figure.layer.rule == Of::one ? Of::mean : figure.layer.rule, 0, over_layers));
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace moescope
