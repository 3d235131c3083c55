#include "core/lessons/lesson_figures.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/cluster/calibration.h"
#include "core/files/assets.h"
#include "core/numerics/operand_format.h"
#include "core/parallel/placement.h"
#include "core/parallel/volumes.h"
#include "core/telemetry/frame/specialisation.h"
#include "core/telemetry/frame/metrics.h"

namespace moescope {
namespace {

using Of = LessonPick::Of;
using Source = LessonFigureInfo::Source;

constexpr LessonFigureInfo kOwnFigures[] = {
    {"utilisation", Source::run, "", "tokens of an expert over its fair share, all steps of the stretch together"},
    {"expert_share", Source::run, "%", "share of all chosen slots that goes to an expert"},
    {"expert_bias", Source::run, "", "expert_bias of an expert at the end of the stretch"},
    {"bias_spread", Source::run, "", "largest minus smallest expert_bias of a layer at the end of the stretch"},
    {"load_correlation", Source::run, "",
     "correlation of the experts' utilisation between step t and step t + lag, over the stretch: near 1 the same "
     "experts stay hot, near 0 it is noise, below 0 the load swings"},
    {"rank_max_over_mean", Source::run, "",
     "token copies that the fullest rank receives over the mean of the ranks, all steps of the stretch together"},
    {"batch_rank_max_over_mean", Source::run, "", "the same in a single batch, mean over the steps of the stretch"},
    {"copies_per_token", Source::run, "", "token copies of the standard all-to-all per token"},
    {"ranks_per_token", Source::run, "", "distinct destination ranks per token: copies after de-duplication"},
    {"nodes_per_token", Source::run, "", "distinct destination nodes per token"},
    {"mxfp8_payload", Source::run, "%", "bytes of a token's row in MXFP8 over its bytes in BF16"},
    {"placed_max_over_mean", Source::run, "",
     "rank_max_over_mean if a balancer had placed the experts by the load of the 50 steps before, `slots_per_rank` (0: "
     "no "
     "replicas)"},
    {"domain_bits", Source::run, "bits",
     "mutual information between a slot's domain and its expert, sum p(d,e) log2(p(d,e) / (p(d) p(e))): 0 when no "
     "expert prefers a domain"},
    {"modelled_gain", Source::run, "x",
     "modelled: layer time with the standard all-to-all over that with DeepEP, if `model`'s layer on 8 H200s had this "
     "router's load"},
    {"modelled_deep_ep_ms", Source::run, "ms", "modelled: that layer's time with DeepEP"},
    {"flip_margin_ratio", Source::run, "",
     "median margin of the tokens that flipped over the median margin of all tokens"},
    {"steps_until", Source::run, "steps",
     "steps from the run's newest live change until the mean of `of` over 10 steps is below `limit`"},
    {"sqnr_db", Source::tensor, "dB", "10 log10(sum x^2 / sum (x - q)^2)"},
    {"underflow", Source::tensor, "%", "share of non-zero values that became zero"},
    {"clipped", Source::tensor, "%", "share of values beyond the format's maximum after scaling"},
    {"clipped_blocks", Source::tensor, "%", "share of blocks with such a value"},
    {"measured_gain", Source::cluster, "x", "measured layer time with the standard all-to-all over that with DeepEP"},
    {"measured_layer_ms", Source::cluster, "ms", "measured layer time with the standard all-to-all"},
    {"measured_deep_ep_ms", Source::cluster, "ms", "measured layer time with DeepEP"},
    {"measured_comm_ms", Source::cluster, "ms",
     "measured time of the layer's two dispatches and two combines alone, standard all-to-all"},
    {"measured_deep_ep_comm_ms", Source::cluster, "ms", "the same with DeepEP"},
    {"measured_slowdown", Source::cluster, "x",
     "measured layer time with the standard all-to-all over that under forced round-robin"},
    {"measured_deep_ep_slowdown", Source::cluster, "x", "the same with DeepEP"},
    {"measured_copies", Source::cluster, "", "copies a token that DeepEP sent in that measurement"},
    {"measured_rank_max_over_mean", Source::cluster, "", "load of the fullest rank over the mean in that measurement"},
};

// One row per figure, the metrics' after our own.
const std::vector<LessonFigureInfo>& table() {
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

bool per_layer(Metric metric) {
  return metric > Metric::step_ms;
}

// The figure over several layers, experts or steps. Values that are not there do not count; empty: NaN.
double fold(Of of, int index, const std::vector<double>& values) {
  if (of == Of::one)
    return index >= 0 && index < static_cast<int>(values.size()) ? values[static_cast<std::size_t>(index)] : NAN;
  double result = of == Of::mean ? 0 : NAN;
  int count = 0;
  for (const double v : values) {
    if (std::isnan(v)) continue;
    ++count;
    if (of == Of::mean)
      result += v;
    else
      result = std::isnan(result) ? v : of == Of::max ? std::max(result, v) : std::min(result, v);
  }
  if (count == 0) return NAN;
  return of == Of::mean ? result / count : result;
}

std::optional<std::int64_t> newest_change(const History& history) {
  std::optional<std::int64_t> step;
  for (const Marker& marker : history.markers())
    if (marker.kind == "change") step = marker.step;
  return step;
}

// Empty: not all of its steps have been taken.
StepRange stretch(const LessonFigure& figure, const History& history) {
  const StepRange taken = history.steps();
  if (!figure.from)
    return taken.size() < figure.last ? StepRange{} : StepRange{taken.last - figure.last + 1, taken.last};
  std::int64_t origin = 0;
  if (figure.since_change) {
    const auto change = newest_change(history);
    if (!change) return {};
    origin = *change;
  }
  const StepRange range{origin + *figure.from, origin + figure.to.value_or(*figure.from)};
  return taken.empty() || range.last > taken.last ? StepRange{} : range;
}

std::vector<int> layers_of(const LessonFigure& figure, const History& history) {
  if (figure.layer.of == Of::one) return {figure.layer.index};
  return history.info().moe_layers;
}

std::vector<std::shared_ptr<const TelemetryFrame>> frames_of(const History& history, StepRange range) {
  std::vector<std::shared_ptr<const TelemetryFrame>> frames;
  for (std::int64_t step = range.first; step <= range.last; ++step)
    if (auto frame = history.frame_at(step); frame && frame->step == step) frames.push_back(std::move(frame));
  return frames;
}

using Frames = std::span<const std::shared_ptr<const TelemetryFrame>>;

const RouterFrame* router_of(const TelemetryFrame& frame, int layer) {
  for (const RouterFrame& router : frame.routers)
    if (router.layer == layer) return &router;
  return nullptr;
}

std::vector<double> utilisations(Frames frames, int layer) {
  std::vector<double> tokens;
  double sum = 0;
  for (const auto& frame : frames) {
    const RouterFrame* router = router_of(*frame, layer);
    if (!router) continue;
    tokens.resize(router->tokens_per_expert.size());
    for (std::size_t e = 0; e < tokens.size(); ++e) {
      tokens[e] += router->tokens_per_expert[e];
      sum += router->tokens_per_expert[e];
    }
  }
  for (double& n : tokens) n *= static_cast<double>(tokens.size()) / sum;
  return tokens;
}

// Slots of every expert, all frames together.
std::vector<std::uint64_t> loads(Frames frames, int layer) {
  std::vector<std::uint64_t> slots;
  for (const auto& frame : frames) {
    const RouterFrame* router = router_of(*frame, layer);
    if (!router) continue;
    slots.resize(router->tokens_per_expert.size());
    for (std::size_t e = 0; e < slots.size(); ++e) slots[e] += router->tokens_per_expert[e];
  }
  return slots;
}

std::vector<double> biases(Frames frames, int layer) {
  const RouterFrame* router = frames.empty() ? nullptr : router_of(*frames.back(), layer);
  if (!router) return {};
  return {router->expert_bias.begin(), router->expert_bias.end()};
}

// Pearson correlation of u_e(t) - 1 with u_e(t + lag) - 1, over all experts and steps of the stretch.
double load_correlation(Frames frames, int layer, std::size_t lag) {
  std::vector<std::vector<double>> rows;
  for (std::size_t t = 0; t < frames.size(); ++t) rows.push_back(utilisations(frames.subspan(t, 1), layer));
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t t = 0; t + lag < rows.size(); ++t) {
    for (std::size_t e = 0; e < std::min(rows[t].size(), rows[t + lag].size()); ++e) {
      const double a = rows[t][e] - 1, b = rows[t + lag][e] - 1;
      ab += a * b, aa += a * a, bb += b * b;
    }
  }
  return ab / std::sqrt(aa * bb);
}

double sum_of(const std::vector<std::uint32_t>& counts) {
  double sum = 0;
  for (const std::uint32_t n : counts) sum += n;
  return sum;
}

double volume_figure(const std::string& key, Frames frames, int layer, double tokens_per_step) {
  double tokens = 0, copies = 0, distinct = 0, nodes = 0;
  std::vector<double> received;
  for (const auto& frame : frames) {
    const RouterFrame* router = router_of(*frame, layer);
    if (!router || router->volume.ranks == 0) continue;
    const VolumeFrame& volume = router->volume;
    tokens += tokens_per_step;
    copies += sum_of(volume.copies_RR), distinct += sum_of(volume.distinct_RR), nodes += sum_of(volume.nodes_RN);
    received.resize(static_cast<std::size_t>(volume.ranks));
    for (std::size_t i = 0; i < volume.copies_RR.size(); ++i) received[i % received.size()] += volume.copies_RR[i];
  }
  if (key == "copies_per_token") return copies / tokens;
  if (key == "ranks_per_token") return distinct / tokens;
  if (key == "nodes_per_token") return nodes / tokens;
  if (received.empty()) return NAN;
  return *std::max_element(received.begin(), received.end()) * static_cast<double>(received.size()) / copies;
}

double median_margin(const std::array<double, kHalfOctaves>& tokens) {
  double all = 0, seen = 0;
  for (const double n : tokens) all += n;
  for (int bin = 0; bin < kHalfOctaves; ++bin) {
    seen += tokens[static_cast<std::size_t>(bin)];
    if (all > 0 && 2 * seen >= all) return half_octave_edge(bin);
  }
  return NAN;
}

double flip_margin_ratio(Frames frames) {
  std::array<double, kHalfOctaves> all{}, flipped{};
  for (const auto& frame : frames) {
    for (const FlipFrame& flip : frame->flips) {
      for (std::size_t bin = 0; bin < all.size(); ++bin) {
        all[bin] += flip.margin_tokens[bin];
        flipped[bin] += flip.margin_flipped[bin];
      }
    }
  }
  return median_margin(flipped) / median_margin(all);
}

double steps_until(const LessonFigure& figure, const History& history) {
  constexpr std::int64_t kMean = 10;
  const auto change = newest_change(history);
  const auto metric = metric_named(figure.of);
  if (!change || !metric) return NAN;
  const StepRange range{*change, history.steps().last};
  if (range.size() < kMean) return NAN;
  const int layer = figure.layer.of == Of::one ? figure.layer.index : kWholeRun;
  const std::vector<float> values = history.values(*metric, layer, range);
  for (std::size_t i = kMean; i <= values.size(); ++i) {
    double mean = 0;
    for (std::size_t k = i - kMean; k < i; ++k) mean += values[k] / static_cast<double>(kMean);
    if (mean < figure.limit) return static_cast<double>(i);
  }
  return NAN;
}

double metric_figure(const LessonFigure& figure, Metric metric, const History& history, StepRange range) {
  std::vector<double> over_layers;
  std::vector<int> layers = {kWholeRun};
  if (per_layer(metric) && figure.layer.of != Of::mean) layers = layers_of(figure, history);
  for (const int layer : layers) {
    const std::vector<float> values = history.values(metric, layer, range);
    over_layers.push_back(fold(figure.over, 0, {values.begin(), values.end()}));
  }
  return fold(figure.layer.of == Of::one ? Of::mean : figure.layer.of, 0, over_layers);
}

// The balancer sees what came before the stretch; how well that holds is judged on the stretch.
double placed_max_over_mean(const History& history, StepRange range, Frames frames, int layer, int slots) {
  constexpr std::int64_t kSeen = 50;
  const auto before = frames_of(history, {std::max(range.first - kSeen, history.steps().first), range.first - 1});
  const auto seen = loads(before, layer), then = loads(frames, layer);
  const RouterFrame* router = frames.empty() ? nullptr : router_of(*frames.front(), layer);
  if (seen.empty() || then.empty() || !router || router->volume.ranks == 0) return NAN;
  const int ranks = router->volume.ranks;
  const int least = (static_cast<int>(seen.size()) + ranks - 1) / ranks;
  const Placement placement =
      place_balanced(seen, ranks, {.slots_per_rank = std::max(slots, least), .n_groups = 1, .ranks_per_node = ranks});
  const std::vector<double> load = rank_loads(placement, then);
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  return *std::max_element(load.begin(), load.end()) * static_cast<double>(load.size()) / sum;
}

// Plug-in estimate of the mutual information of domain and expert, bits a slot.
double domain_bits(Frames frames, int layer, std::size_t domains) {
  SpecialisationFrame sum;
  for (const auto& frame : frames)
    for (const SpecialisationFrame& each : frame->specialisation)
      if (each.layer == layer) accumulate(sum, each);
  if (sum.domain_DE.empty() || domains == 0) return NAN;
  const std::size_t experts = sum.domain_DE.size() / domains;
  std::vector<double> of_domain(domains), of_expert(experts);
  double all = 0, bits = 0;
  for (std::size_t i = 0; i < sum.domain_DE.size(); ++i) {
    const double n = sum.domain_DE[i];
    all += n, of_domain[i / experts] += n, of_expert[i % experts] += n;
  }
  for (std::size_t i = 0; i < sum.domain_DE.size(); ++i) {
    const double n = sum.domain_DE[i];
    if (n > 0) bits += n / all * std::log2(n * all / (of_domain[i / experts] * of_expert[i % experts]));
  }
  return bits;
}

double layer_figure(const LessonFigure& figure, const History& history, Frames frames, int layer) {
  const Of expert = figure.expert.of;
  if (figure.key == "utilisation") return fold(expert, figure.expert.index, utilisations(frames, layer));
  if (figure.key == "expert_share") {
    std::vector<double> shares = utilisations(frames, layer);
    for (double& share : shares) share /= static_cast<double>(shares.size());
    return fold(expert, figure.expert.index, shares);
  }
  if (figure.key == "placed_max_over_mean")
    return placed_max_over_mean(history, stretch(figure, history), frames, layer, figure.slots_per_rank);
  if (figure.key == "domain_bits") return domain_bits(frames, layer, history.info().domains.size());
  if (figure.key == "expert_bias") return fold(expert, figure.expert.index, biases(frames, layer));
  if (figure.key == "bias_spread") {
    const std::vector<double> all = biases(frames, layer);
    return fold(Of::max, 0, all) - fold(Of::min, 0, all);
  }
  if (figure.key == "load_correlation") return load_correlation(frames, layer, static_cast<std::size_t>(figure.lag));
  const auto tokens = static_cast<double>(history.info().tokens_per_step);
  if (figure.key == "batch_rank_max_over_mean") {
    std::vector<double> steps;
    for (std::size_t t = 0; t < frames.size(); ++t)
      steps.push_back(volume_figure("rank_max_over_mean", frames.subspan(t, 1), layer, tokens));
    return fold(Of::mean, 0, steps);
  }
  return volume_figure(figure.key, frames, layer, tokens);
}

OperandFormat operand_format(const LessonFormat& lesson) {
  OperandFormat format;
  format.scheme = lesson.format.block == 0 ? QuantScheme::fp8 : QuantScheme::mx;
  format.element = lesson.format.element;
  format.rule = lesson.format.rule;
  if (lesson.format.block > 0) format.block = lesson.format.block;
  return format;
}

std::string format_key(const LessonFormat& f) {
  return std::string(traits(f.format.element).name) + "/" + scale_rule_name(f.format.rule) + "/" +
         std::to_string(f.format.block) + (f.axis == BlockAxis::row ? "/row" : "/column");
}

double tensor_figure(const std::string& key, const LessonTensor& tensor, LessonColumns columns,
                     const LessonFormat& format, const std::vector<float>& values) {
  const auto rows = static_cast<std::size_t>(tensor.rows), cols = static_cast<std::size_t>(tensor.cols);
  std::vector<float> q(values.size());
  QuantSums sums;
  quantize_operand(operand_format(format), {values.data(), rows, cols, cols}, format.axis, {}, q.data(), cols, &sums);
  if (key == "clipped") return sums.clipped_share();
  if (key == "clipped_blocks") return sums.clipped_blocks_share();
  double x2 = 0, err2 = 0, nonzero = 0, lost = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!counts(tensor, columns, static_cast<int>(i % cols))) continue;
    const double x = values[i], error = x - static_cast<double>(q[i]);
    x2 += x * x, err2 += error * error;
    nonzero += x != 0, lost += x != 0 && q[i] == 0;
  }
  return key == "underflow" ? lost / nonzero : 10 * std::log10(x2 / err2);
}

// The 8-GPU file: the only one with both ways of the all-to-all.
const MeasuredLayer* measured_layer(const std::string& model, const std::string& routing) {
  static const Calibration calibration = parse_calibration(asset("calibration/h200x8.json"), "calibration/h200x8.json");
  for (const MeasuredLayer& layer : calibration.layers)
    if (layer.shape.model == model && layer.routing.label == routing) return &layer;
  return nullptr;
}

double cluster_figure(const LessonFigure& figure) {
  const MeasuredLayer* layer = measured_layer(figure.model, figure.routing);
  const MeasuredLayer* even = measured_layer(figure.model, "round_robin");
  if (!layer || !even) return NAN;
  const auto& times = layer->times;
  if (figure.key == "measured_gain") return times.standard_layer_ms / times.deep_ep_layer_ms;
  if (figure.key == "measured_layer_ms") return times.standard_layer_ms;
  if (figure.key == "measured_deep_ep_ms") return times.deep_ep_layer_ms;
  if (figure.key == "measured_comm_ms") return times.standard_comm_ms;
  if (figure.key == "measured_deep_ep_comm_ms") return times.deep_ep_comm_ms;
  if (figure.key == "measured_slowdown") return times.standard_layer_ms / even->times.standard_layer_ms;
  if (figure.key == "measured_deep_ep_slowdown") return times.deep_ep_layer_ms / even->times.deep_ep_layer_ms;
  if (figure.key == "measured_copies") return layer->routing.copies_per_token_deep_ep;
  return layer->routing.rank_max_over_mean;
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<Metric> metric_named(std::string_view key) {
  for (int m = 0; m < kNumMetrics; ++m)
    if (key == metric_info(static_cast<Metric>(m)).key) return static_cast<Metric>(m);
  return std::nullopt;
}

std::span<const LessonFigureInfo> lesson_figures() {
  return table();
}

const LessonFigureInfo* find_lesson_figure(std::string_view key) {
  for (const LessonFigureInfo& info : table())
    if (key == info.key) return &info;
  return nullptr;
}

std::string figure_text(const LessonFigure& figure, double value) {
  const LessonFigureInfo* info = find_lesson_figure(figure.key);
  assert(info);
  const std::string_view unit = info->unit;
  char text[48];
  if (unit == "%")
    std::snprintf(text, sizeof text, std::fabs(value) < 0.001 && value != 0 ? "%.2f %%" : "%.1f %%", 100 * value);
  else if (unit == "dB")
    std::snprintf(text, sizeof text, "%.1f dB", value);
  else if (unit == "x")
    std::snprintf(text, sizeof text, "%.2fx", value);
  else if (unit == "steps")
    std::snprintf(text, sizeof text, "%.0f steps", value);
  else
    std::snprintf(text, sizeof text, std::fabs(value) >= 100 ? "%.0f%s%s" : "%.3g%s%s", value,
                  unit.empty() || unit == "nats/token" ? "" : " ",
                  unit.empty() || unit == "nats/token" ? "" : info->unit);
  return text;
}

std::optional<double> LessonReader::read(const LessonFigure& figure) const {
  const LessonFigureInfo* info = find_lesson_figure(figure.key);
  assert(info);
  std::optional<double> value;
  switch (info->source) {
    case Source::run:
      value = read_run(figure);
      break;
    case Source::tensor:
      value = read_tensor(figure);
      break;
    case Source::cluster:
      value = finite(cluster_figure(figure));
      break;
  }
  if (value) *value *= figure.times;
  return value;
}

std::optional<double> LessonReader::read_run(const LessonFigure& figure) const {
  if (figure.run >= static_cast<int>(histories_.size())) return std::nullopt;
  const History& history = *histories_[static_cast<std::size_t>(figure.run)];
  if (figure.key == "steps_until") return finite(steps_until(figure, history));
  if (figure.key == "mxfp8_payload") {
    const int dim = history.info().dim;
    return finite(static_cast<double>(mxfp8_bytes_per_token(dim)) / static_cast<double>(bf16_bytes_per_token(dim)));
  }
  const StepRange range = stretch(figure, history);
  if (range.empty()) return std::nullopt;
  if (const auto metric = metric_named(figure.key)) return finite(metric_figure(figure, *metric, history, range));
  const auto frames = frames_of(history, range);
  if (figure.key == "flip_margin_ratio") return finite(flip_margin_ratio(frames));
  std::vector<double> over_layers;
  for (const int layer : layers_of(figure, history))
    over_layers.push_back(figure.key.starts_with("modelled_") ? modelled_figure(figure, layer, loads(frames, layer))
                                                              : layer_figure(figure, history, frames, layer));
  return finite(fold(figure.layer.of == Of::one ? Of::mean : figure.layer.of, 0, over_layers));
}

double LessonReader::modelled_figure(const LessonFigure& figure, int layer,
                                     const std::vector<std::uint64_t>& load) const {
  if (load.empty()) return NAN;
  const std::vector<std::uint32_t> counts(load.begin(), load.end());
  auto& [known, gain] = modelled_[figure.model + static_cast<char>('A' + figure.run) + std::to_string(layer)];
  if (known != counts) gain = layer_gain_of_load(figure.model, known = counts);
  return figure.key == "modelled_gain" ? gain.modelled : gain.modelled_ms;
}

std::optional<double> LessonReader::read_tensor(const LessonFigure& figure) const {
  const auto tensor = std::find_if(tensors_.begin(), tensors_.end(),
                                   [&](const LessonTensor& each) { return each.name == figure.tensor; });
  if (tensor == tensors_.end()) return std::nullopt;
  const LessonFormat& format = figure.format ? *figure.format : chosen_;
  const std::string key = figure.key + " " + figure.tensor + " " + format_key(format) + " " +
                          std::to_string(static_cast<int>(figure.columns));
  if (const auto known = known_.find(key); known != known_.end()) return finite(known->second);
  std::vector<float>& values = values_[tensor->name];
  if (values.empty()) values = make_tensor(*tensor);
  return finite(known_[key] = tensor_figure(figure.key, *tensor, figure.columns, format, values));
}

LessonJudgement LessonReader::judge(const LessonCheck& check) const {
  LessonJudgement result;
  result.value = read(check.figure);
  std::optional<double> above, below;
  bool known = result.value.has_value();
  const auto take = [&](const std::optional<LessonCheck::Bound>& bound, std::optional<double>& limit) {
    if (!bound) return;
    limit = bound->figure ? read(*bound->figure) : bound->number;
    known &= limit.has_value();
  };
  take(check.above, above);
  take(check.below, below);
  if (!known) {
    result.text = "not measured yet";
    return result;
  }
  const bool holds = (!above || *result.value > *above) && (!below || *result.value < *below);
  result.state = holds ? LessonJudgement::State::holds : LessonJudgement::State::fails;
  result.text = figure_text(check.figure, *result.value) + (holds ? ", " : ", expected ");
  if (above) result.text += "above " + figure_text(check.figure, *above);
  if (above && below) result.text += " and ";
  if (below) result.text += "below " + figure_text(check.figure, *below);
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
