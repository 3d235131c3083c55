#include "core/lessons/run_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>

#include "core/cluster/ranks/placement.h"
#include "core/cluster/ranks/volumes.h"
#include "core/findings/findings.h"
#include "core/frame/change_marker.h"
#include "core/frame/specialisation.h"

namespace moescope {
namespace {

using Of = LessonPick::Of;

// Returns the statistic over several layers, experts or steps. Skips missing values; NaN if there are none.
double fold(Of rule, int index, const std::vector<double>& values) {
  if (rule == Of::one) return index >= 0 && index < static_cast<int>(values.size()) ? values[index] : NAN;
  double result = rule == Of::mean ? 0 : NAN;
  int count = 0;
  for (const double v : values) {
    if (std::isnan(v)) continue;
    ++count;
    if (rule == Of::mean)
      result += v;
    else
      result = std::isnan(result) ? v : rule == Of::max ? std::max(result, v) : std::min(result, v);
  }
  if (count == 0) return NAN;
  return rule == Of::mean ? result / count : result;
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
  if (!figure.from)
    return recorded_steps.size() < figure.last ? StepRange{}
                                               : StepRange{recorded_steps.last - figure.last + 1, recorded_steps.last};
  std::int64_t origin = 0;
  if (figure.since_change) {
    const auto change = newest_change(history);
    if (!change) return {};
    origin = *change;
  }
  const StepRange range{origin + *figure.from, origin + figure.to.value_or(*figure.from)};
  return recorded_steps.empty() || range.last > recorded_steps.last ? StepRange{} : range;
}

std::vector<int> layers_of(const RunFigure& figure, const History& history) {
  if (figure.layer.rule == Of::one) return {figure.layer.index};
  return history.info().moe_layers;
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

std::vector<double> utilisations(Frames frames, int layer) {
  const std::vector<std::uint64_t> slots = loads(frames, layer);
  const double sum = std::accumulate(slots.begin(), slots.end(), 0.0);
  std::vector<double> tokens(slots.begin(), slots.end());
  for (double& n : tokens) n *= tokens.size() / sum;
  return tokens;
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

double volume_figure(std::string_view key, Frames frames, int layer, double tokens_per_step) {
  double tokens = 0, copies = 0, distinct = 0, nodes = 0;
  std::vector<double> received;
  for (const auto& frame : frames) {
    const RouterFrame* router = find_router(frame.get(), layer);
    if (!router || router->volume.ranks == 0) continue;
    const VolumeFrame& volume = router->volume;
    tokens += tokens_per_step;
    copies += sum_of(volume.copies_RR), distinct += sum_of(volume.distinct_RR), nodes += sum_of(volume.nodes_RN);
    received.resize(volume.ranks);
    for (std::size_t i = 0; i < volume.copies_RR.size(); ++i) received[i % received.size()] += volume.copies_RR[i];
  }
  if (key == "copies_per_token") return copies / tokens;
  if (key == "ranks_per_token") return distinct / tokens;
  if (key == "nodes_per_token") return nodes / tokens;
  if (received.empty()) return NAN;
  return *std::max_element(received.begin(), received.end()) * received.size() / copies;
}

double median_margin(const std::array<double, kHalfOctaves>& tokens) {
  double all = 0, counted_tokens = 0;
  for (const double n : tokens) all += n;
  for (int bin = 0; bin < kHalfOctaves; ++bin) {
    counted_tokens += tokens[bin];
    if (all > 0 && 2 * counted_tokens >= all) return half_octave_edge(bin);
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
    double mean = 0;
    for (std::size_t k = i - kMean; k < i; ++k) mean += values[k] / static_cast<double>(kMean);
    if (mean < figure.limit) return i;
  }
  return NAN;
}

double metric_figure(const RunFigure& figure, Metric metric, const History& history, StepRange range) {
  std::vector<double> over_layers;
  std::vector<int> layers = {kWholeRun};
  if (is_of_layers(metric) && figure.layer.rule != Of::mean) layers = layers_of(figure, history);
  for (const int layer : layers) {
    const std::vector<float> values = history.values_in(metric, layer, range);
    over_layers.push_back(fold(figure.over_layers, 0, {values.begin(), values.end()}));
  }
  return fold(figure.layer.rule == Of::one ? Of::mean : figure.layer.rule, 0, over_layers);
}

// The placement is computed from the 50 steps before the range and judged by the load of the range.
double placed_max_over_mean(const History& history, StepRange range, Frames frames, int layer, int slots) {
  constexpr std::int64_t kPlannedSteps = 50;
  const auto before =
      frames_of(history, {std::max(range.first - kPlannedSteps, history.steps().first), range.first - 1});
  const auto planned_loads = loads(before, layer), later_loads = loads(frames, layer);
  const RouterFrame* router = frames.empty() ? nullptr : find_router(frames.front().get(), layer);
  if (planned_loads.empty() || later_loads.empty() || !router || router->volume.ranks == 0) return NAN;
  const int ranks = router->volume.ranks;
  const int min_slots = (static_cast<int>(planned_loads.size()) + ranks - 1) / ranks;
  const Placement placement = place_balanced(
      planned_loads, ranks, {.slots_per_rank = std::max(slots, min_slots), .n_groups = 1, .ranks_per_node = ranks});
  const std::vector<double> load = rank_loads(placement, later_loads);
  const double sum = std::accumulate(load.begin(), load.end(), 0.0);
  return *std::max_element(load.begin(), load.end()) * load.size() / sum;
}

// Plug-in estimate of the mutual information of domain and expert, in bits per slot.
double domain_bits(Frames frames, int layer, std::size_t domains) {
  SpecialisationFrame sum;
  for (const auto& frame : frames)
    for (const SpecialisationFrame& counts : frame->specialisation)
      if (counts.layer == layer) accumulate(sum, counts);
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

double findings_of(const std::string& kind, const History& history) {
  // A pointer without ownership, because the caller holds the history during the scan.
  const auto all = find_all(HistoryPtr(HistoryPtr(), &history));
  return std::ranges::count_if(
      all, [&](const Finding& finding) { return finding.ongoing && finding_kind_info(finding.kind).name == kind; });
}

double layer_figure(std::string_view key, const RunFigure& figure, const History& history, Frames frames, int layer) {
  const Of expert = figure.expert.rule;
  if (key == "utilisation") return fold(expert, figure.expert.index, utilisations(frames, layer));
  if (key == "expert_share") {
    std::vector<double> shares = utilisations(frames, layer);
    for (double& share : shares) share /= shares.size();
    return fold(expert, figure.expert.index, shares);
  }
  if (key == "placed_max_over_mean")
    return placed_max_over_mean(history, stretch(figure, history), frames, layer, figure.slots_per_rank);
  if (key == "domain_bits") return domain_bits(frames, layer, history.info().domains.size());
  if (key == "expert_bias") return fold(expert, figure.expert.index, biases(frames, layer));
  if (key == "bias_spread") {
    const std::vector<double> all = biases(frames, layer);
    return fold(Of::max, 0, all) - fold(Of::min, 0, all);
  }
  if (key == "counts_ratio") {
    const std::vector<std::uint64_t> counts = loads(frames, layer);
    const double slots = static_cast<double>(history.info().tokens_per_step) * history.info().top_k;
    return std::accumulate(counts.begin(), counts.end(), 0.0) / (slots * frames.size());
  }
  if (key == "load_correlation") return load_correlation(frames, layer, figure.lag);
  const double tokens = history.info().tokens_per_step;
  if (key == "batch_rank_max_over_mean") {
    std::vector<double> steps;
    for (std::size_t t = 0; t < frames.size(); ++t)
      steps.push_back(volume_figure("rank_max_over_mean", frames.subspan(t, 1), layer, tokens));
    return fold(Of::mean, 0, steps);
  }
  return volume_figure(key, frames, layer, tokens);
}

}  // namespace

const LayerGain& ModelledGains::find_gain(const RunFigure& figure, int layer, const std::vector<std::uint64_t>& load) {
  const std::vector<std::uint32_t> counts(load.begin(), load.end());
  auto& [known, gain] = known_[figure.model + static_cast<char>('A' + figure.run) + std::to_string(layer)];
  if (known != counts) gain = layer_gain_of_load(figure.model, known = counts);
  return gain;
}

std::optional<double> run_figure(std::string_view key, const RunFigure& figure, const History& history,
                                 ModelledGains& modelled) {
  if (key == "steps_until") return finite(steps_until(figure, history));
  if (key == "mxfp8_payload") {
    const int dim = history.info().dim;
    return finite(bytes_per_token(Payload::mxfp8, dim) / static_cast<double>(bytes_per_token(Payload::bf16, dim)));
  }
  const StepRange range = stretch(figure, history);
  if (range.empty()) return std::nullopt;
  if (key == "finding") return findings_of(figure.argument, history);
  if (const auto metric = find_scalar(key)) return finite(metric_figure(figure, *metric, history, range));
  const auto frames = frames_of(history, range);
  if (key == "flip_margin_ratio") return finite(flip_margin_ratio(frames));
  std::vector<double> over_layers;
  for (const int layer : layers_of(figure, history)) {
    if (!key.starts_with("modelled_")) {
      over_layers.push_back(layer_figure(key, figure, history, frames, layer));
    } else if (const auto load = loads(frames, layer); load.empty()) {
      over_layers.push_back(NAN);
    } else {
      const LayerGain& gain = modelled.find_gain(figure, layer, load);
      over_layers.push_back(key == "modelled_gain" ? gain.modelled : gain.modelled_ms);
    }
  }
  return finite(fold(figure.layer.rule == Of::one ? Of::mean : figure.layer.rule, 0, over_layers));
}

std::int64_t steps_since_change(const History& history) {
  return history.steps().last - newest_change(history).value_or(0) + 1;
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace moescope
