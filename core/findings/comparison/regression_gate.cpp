#include "core/findings/comparison/regression_gate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/findings/comparison/same_settings.h"
#include "core/numerics/statistics.h"

namespace moescope {
namespace {

constexpr std::int64_t kBlockSteps = 5, kMaxBlocks = 100;  // steps of a block, blocks
constexpr std::size_t kMinGateBlocks = 6;                  // with a value, for a verdict on a figure
constexpr double kSpreadOfOne = 10;                        // R beside one good run
constexpr double kWidening = 1.5;                          // of the limit: figures vary with heavier tails than normal
constexpr double kWideningOfTwo = 1.8;                     // beside two good runs, whose spread is one difference
constexpr double kMinCorrelation = 0.2;                    // lower limit of rho
constexpr double kApartShare = 0.25;  // of the limit, beyond which a figure is apart before it leaves the band
constexpr double kRounding = 1e-5;    // share of a figure's size up to which a difference may be rounding

using BlockValues = std::vector<double>;  // by block; NaN: no value

// The steps of the runs, cut into blocks: block b of run r holds steps[r][edges[r][b]] to steps[r][edges[r][b + 1] -
// 1].
struct PairedBlocks {
  std::vector<std::vector<std::int64_t>> steps;
  std::vector<std::vector<std::size_t>> edges;
  std::size_t count = 0;
  std::int64_t common = 0;
  bool by_tokens = false;
};

std::int64_t tokens_of(const History& run) {
  return run.info().tokens_per_step;
}

bool pairs_by_tokens(std::span<const HistoryPtr> runs) {
  const auto known = [](const HistoryPtr& run) { return tokens_of(*run) > 0; };
  const auto differs = [&](const HistoryPtr& run) { return tokens_of(*run) != tokens_of(*runs.front()); };
  return std::ranges::all_of(runs, known) && std::ranges::any_of(runs, differs);
}

std::size_t gate_blocks(std::int64_t steps) {
  return std::min(kMaxBlocks, steps / kBlockSteps);
}

PairedBlocks blocks_by_steps(std::span<const HistoryPtr> runs) {
  PairedBlocks blocks;
  std::vector<std::int64_t> common = runs.front()->steps_in(runs.front()->steps());
  for (const HistoryPtr& run : runs.subspan(1)) {
    const std::vector<std::int64_t> steps = run->steps_in(run->steps());
    std::vector<std::int64_t> both;
    std::ranges::set_intersection(common, steps, std::back_inserter(both));
    common = std::move(both);
  }
  blocks.common = std::ssize(common);
  blocks.count = gate_blocks(blocks.common);
  std::vector<std::size_t> edges;
  for (std::size_t b = 0; b <= blocks.count; ++b)
    edges.push_back(blocks.count > 0 ? b * common.size() / blocks.count : 0);
  blocks.steps.assign(runs.size(), common);
  blocks.edges.assign(runs.size(), edges);
  return blocks;
}

// Step s ends at token (s + 1) * tokens_per_step.
PairedBlocks blocks_by_tokens(std::span<const HistoryPtr> runs) {
  PairedBlocks blocks;
  blocks.by_tokens = true;
  double first = 0, last = std::numeric_limits<double>::infinity();
  for (const HistoryPtr& run : runs) {
    const double tokens = tokens_of(*run);
    first = std::max(first, run->steps().first * tokens);
    last = std::min(last, (run->steps().last + 1) * tokens);
  }
  blocks.common = INT64_MAX;
  for (const HistoryPtr& run : runs) {
    std::vector<std::int64_t> steps = run->steps_in(run->steps());
    std::erase_if(steps, [&](std::int64_t step) {
      const double end = static_cast<double>(step + 1) * tokens_of(*run);
      return end <= first || end > last;
    });
    blocks.common = std::min(blocks.common, static_cast<std::int64_t>(steps.size()));
    blocks.steps.push_back(std::move(steps));
  }
  blocks.count = gate_blocks(blocks.common);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::vector<std::size_t> edges;
    for (std::size_t b = 0; b <= blocks.count; ++b) {
      const double edge = first + (last - first) * b / std::max<double>(1, blocks.count);
      const auto after = std::ranges::partition_point(blocks.steps[r], [&](std::int64_t step) {
        return static_cast<double>(step + 1) * tokens_of(*runs[r]) <= edge;
      });
      edges.push_back(after - blocks.steps[r].begin());
    }
    blocks.edges.push_back(std::move(edges));
  }
  return blocks;
}

// A figure of all runs by block: the judged run first.
struct GateSample {
  GateFigure figure;
  std::vector<BlockValues> values_by_run;
  std::optional<std::int64_t> not_finite{};  // first step at which only the judged run's value is NaN or infinite
};

// Figures that depend on the machine, on another run, or are settings.
bool is_gate_figure(Metric metric) {
  constexpr std::array kOthers = {Metric::lr,
                                  Metric::tokens_per_s,
                                  Metric::step_ms,
                                  Metric::flip_rate,
                                  Metric::max_vio_p50,
                                  Metric::max_vio_p90,
                                  Metric::max_vio_max,
                                  Metric::max_vio_window_p50,
                                  Metric::max_vio_window_p90,
                                  Metric::max_vio_window_max};
  return std::ranges::find(kOthers, metric) == kOthers.end();
}

std::optional<Worst> worst_side(Metric metric) {
  constexpr std::array kLargest = {Metric::ce_loss,
                                   Metric::val_loss,
                                   Metric::fp32_kl,
                                   Metric::fp32_k3,
                                   Metric::fp32_ratio_beyond_2,
                                   Metric::fp32_any_layer_flipped,
                                   Metric::dropped_fraction,
                                   Metric::rank_overload,
                                   Metric::max_vio_microbatch,
                                   Metric::rounding_flip_rate};
  constexpr std::array kSmallest = {Metric::quant_sqnr_db, Metric::gradient_snr_db, Metric::gradient_cosine,
                                    Metric::pinned_gradient_snr_db, Metric::pinned_gradient_cosine};
  if (const std::optional<Worst> worst = metric_info(metric).plot.worst) return worst;
  if (std::ranges::find(kLargest, metric) != kLargest.end()) return Worst::largest;
  return std::ranges::find(kSmallest, metric) != kSmallest.end() ? std::optional(Worst::smallest) : std::nullopt;
}

// Means over the blocks of the finite values. Sets the first step with a value that is NaN or infinite.
BlockValues block_means(const std::vector<float>& values, const std::vector<std::size_t>& edges,
                        std::optional<std::size_t>& first_not_finite) {
  BlockValues means;
  for (std::size_t b = 0; b + 1 < edges.size(); ++b) {
    double sum = 0;
    int finite = 0;
    for (std::size_t i = edges[b]; i < edges[b + 1]; ++i) {
      if (std::isfinite(values[i])) {
        sum += values[i];
        ++finite;
      } else if (!is_missing(values[i]) && !first_not_finite) {
        first_not_finite = i;
      }
    }
    means.push_back(finite > 0 ? sum / finite : NAN);
  }
  return means;
}

bool has_finite(const BlockValues& means) {
  return std::ranges::any_of(means, [](double mean) { return std::isfinite(mean); });
}

class Collector {
 public:
  Collector(std::span<const HistoryPtr> runs, const PairedBlocks& blocks) : runs_(runs), blocks_(blocks) {}

  void collect(GateReport& report) {
    for (int m = 0; m < kNumMetrics; ++m) {
      const auto metric = static_cast<Metric>(m);
      if (!is_gate_figure(metric)) continue;
      const std::size_t before = samples.size();
      if (metric_info(metric).run_value != RunValue::alone)
        for (const int layer : layers()) add(metric, layer, report);
      if (samples.size() == before) add(metric, kWholeRun, report);
    }
    add_operands();
  }

  std::vector<GateSample> samples;
  std::optional<std::size_t> bad_good_run;

 private:
  std::set<int> layers() const {
    std::set<int> layers;
    for (const HistoryPtr& run : runs_)
      for (int layer = 0; layer < run->info().n_layers; ++layer) layers.insert(layer);
    return layers;
  }

  void add(Metric metric, int layer, GateReport& report) {
    GateSample sample{{&metric_info(metric), layer, {}, worst_side(metric)}, {}};
    std::size_t having = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      std::optional<std::size_t> not_finite;
      const std::vector<float> values = runs_[r]->values_at(metric, layer, blocks_.steps[r]);
      sample.values_by_run.push_back(block_means(values, blocks_.edges[r], not_finite));
      if (r == 0 && metric == Metric::ce_loss) keep_same_text(report.other_text_from, sample.values_by_run.front());
      having += has_finite(sample.values_by_run.back()) || not_finite;
      if (!not_finite || metric != Metric::ce_loss) continue;
      if (r > 0 && !bad_good_run) bad_good_run = r - 1;
      if (r == 0) sample.not_finite = blocks_.steps[0][*not_finite];
    }
    const auto is_zero = [](const BlockValues& means) {
      return std::ranges::all_of(means, [](double mean) { return mean == 0 || std::isnan(mean); });
    };
    if (!sample.not_finite && std::ranges::all_of(sample.values_by_run, is_zero)) return;  // nothing to judge
    if (having == runs_.size()) return samples.push_back(std::move(sample));
    if (having > 0) report.not_in_all.push_back(figure_text(sample.figure));
  }

  // Drops the blocks of the judged run with steps on different text.
  void keep_same_text(std::int64_t other_text_from, BlockValues& means) const {
    for (std::size_t b = 0; b < means.size(); ++b)
      if (blocks_.steps[0][std::max<std::size_t>(1, blocks_.edges[0][b + 1]) - 1] >= other_text_from) means[b] = NAN;
  }

  // SQNR and underflow of the operands that all runs quantize, from the newest frame of each block.
  void add_operands() {
    std::map<std::string, std::pair<OperandPlace, std::vector<std::array<BlockValues, 2>>>> operands;
    for (std::size_t r = 0; r < runs_.size(); ++r)
      for (std::size_t b = 0; b < blocks_.count; ++b) {
        if (blocks_.edges[r][b] == blocks_.edges[r][b + 1]) continue;
        const std::int64_t first = blocks_.steps[r][blocks_.edges[r][b]];
        const auto frame = runs_[r]->quant_frame_at(blocks_.steps[r][blocks_.edges[r][b + 1] - 1]);
        if (!frame || frame->step < first) continue;
        for (const QuantFrame& quant : frame->quants) {
          auto& [place, values] = operands[place_text(quant)];
          place = quant;
          values.resize(runs_.size(), {BlockValues(blocks_.count, NAN), BlockValues(blocks_.count, NAN)});
          values[r][0][b] = quant.sqnr_db;
          values[r][1][b] = quant.underflow;
        }
      }
    static constexpr std::array kKeys = {FigureKey("sqnr_db"), FigureKey("underflow")};
    for (const auto& [text, operand] : operands)
      for (std::size_t k = 0; k < kKeys.size(); ++k) {
        const auto& [place, values] = operand;
        GateSample sample{{&kKeys[k].info(), place.layer, place, k == 0 ? Worst::smallest : Worst::largest}, {}};
        for (const auto& operand_values : values) sample.values_by_run.push_back(operand_values[k]);
        if (std::ranges::all_of(sample.values_by_run, has_finite)) samples.push_back(std::move(sample));
      }
  }

  std::span<const HistoryPtr> runs_;
  const PairedBlocks& blocks_;
};

// A sample without the blocks in which a run has no value.
struct DenseSample {
  std::vector<std::size_t> block;          // of each value
  std::vector<BlockValues> values_by_run;  // the judged run first
  BlockValues good_mean;
  BlockValues within;   // w_j
  BlockValues between;  // variance between the good runs in units of w_j
  double lagged = 0, squares = 0;
  std::size_t size() const { return block.size(); }
};

DenseSample without_gaps(const GateSample& sample) {
  DenseSample found;
  const std::size_t blocks = sample.values_by_run.front().size();
  for (std::size_t b = 0; b < blocks; ++b)
    if (std::ranges::all_of(sample.values_by_run, [b](const BlockValues& run) { return std::isfinite(run[b]); }))
      found.block.push_back(b);
  for (const BlockValues& run : sample.values_by_run) {
    BlockValues run_values;
    for (const std::size_t b : found.block) run_values.push_back(run[b]);
    found.values_by_run.push_back(std::move(run_values));
  }
  return found;
}

double mean_over_blocks(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / values.size();
}

// Mean over each value and `reach` neighbours to each side.
BlockValues local_means(const BlockValues& values, std::size_t reach) {
  BlockValues means;
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::size_t first = j - std::min(j, reach), last = std::min(values.size() - 1, j + reach);
    means.push_back(mean_over_blocks(std::span(values).subspan(first, last - first + 1)));
  }
  return means;
}

// Adds the squares of second differences over `distance` blocks, scaled to the variance of a block.
void add_second_differences(const BlockValues& run, std::size_t distance, double weight, BlockValues& squares) {
  const std::size_t n = run.size();
  for (std::size_t j = 0; j < n; ++j) {
    const std::size_t centre = std::clamp(j, distance, n - 1 - distance);
    const double difference = run[centre - distance] - 2 * run[centre] + run[centre + distance];
    squares[j] += weight * difference * difference / 6;
  }
}

// Local variance of a good run from block to block, averaged over the runs and over an eighth of the blocks to each
// side; not below a tenth of its mean, nor below rounding. One good run shows only by its own slow changes how far
// equal runs may lie apart: the largest variance over 1, 2, 4, ... blocks then counts.
BlockValues variance_within(std::span<const BlockValues> good) {
  const std::size_t n = good.front().size();
  BlockValues variance(n, 0.0);
  const std::size_t farthest = good.size() == 1 ? std::max<std::size_t>(1, n / 4) : 1;
  for (std::size_t distance = 1; distance <= farthest; distance *= 2) {
    BlockValues squares(n, 0.0);
    for (const BlockValues& run : good) add_second_differences(run, distance, 1.0 / good.size(), squares);
    const BlockValues local = local_means(squares, std::max<std::size_t>(3, n / 8));
    for (std::size_t j = 0; j < n; ++j) variance[j] = std::max(variance[j], local[j]);
  }
  double size = 0;
  for (const BlockValues& run : good)
    for (const double value : run) size = std::max(size, std::abs(value));
  const double floor = std::max(mean_over_blocks(variance) / 10, std::pow(kRounding * size, 2));
  for (double& value : variance) value = std::max(value, floor);
  return variance;
}

void measure_spread(DenseSample& sample) {
  const std::span<const BlockValues> good = std::span(sample.values_by_run).subspan(1);
  const auto k = static_cast<double>(good.size());
  sample.good_mean.assign(sample.size(), 0.0);
  for (const BlockValues& run : good)
    for (std::size_t j = 0; j < sample.size(); ++j) sample.good_mean[j] += run[j] / k;
  sample.within = variance_within(good);
  sample.between.assign(sample.size(), 0.0);
  if (good.size() < 2) return;
  for (const BlockValues& run : good) {
    double before = 0;
    for (std::size_t j = 0; j < sample.size(); ++j) {
      const double deviation = (run[j] - sample.good_mean[j]) / std::sqrt(sample.within[j]);
      sample.between[j] += deviation * deviation / (k - 1);
      sample.squares += deviation * deviation;
      sample.lagged += before * deviation;
      before = deviation;
    }
  }
}

// What the layers of a figure have in common.
struct GateSpread {
  double ratio = 1;    // R
  double blocks = 1;   // of a layer that count as independent: n_eff
  double degrees = 1;  // of freedom
};

GateSpread spread_of(std::span<const DenseSample* const> layers, std::size_t good_runs) {
  double blocks = 0;
  for (const DenseSample* layer : layers) blocks += layer->size();
  const double mean_blocks = blocks / layers.size();
  if (good_runs < 2) return {kSpreadOfOne, mean_blocks / 2, std::max(1.0, blocks / 2)};
  double ratio = 0, lagged = 0, squares = 0;
  for (const DenseSample* layer : layers) {
    ratio += mean_over_blocks(layer->between) / layers.size();
    lagged += layer->lagged;
    squares += layer->squares;
  }
  const double rho = std::clamp(squares > 0 ? lagged / squares : 0, kMinCorrelation, 0.99);
  const double independent = std::max(1.0, mean_blocks * (1 - rho) / (1 + rho));
  return {std::max(1.0, ratio), independent,
          std::max(1.0, static_cast<double>(good_runs - 1) * layers.size() * independent)};
}

GateSeries series_of(const GateSample& sample, const DenseSample& dense_sample, const GateSpread& spread,
                     double limit) {
  const std::size_t blocks = sample.values_by_run.front().size();
  const std::vector<float> none(blocks, kNoValue);
  GateSeries series{sample.figure, none, none, none, none, static_cast<float>(limit)};
  const auto k = static_cast<double>(sample.values_by_run.size() - 1);
  const BlockValues local = local_means(dense_sample.between, std::max<std::size_t>(2, dense_sample.size() / 6));
  const double ratio = std::max(spread.ratio, mean_over_blocks(dense_sample.between));
  for (std::size_t j = 0; j < dense_sample.size(); ++j) {
    const std::size_t b = dense_sample.block[j];
    const double error = std::sqrt(std::max(ratio, local[j]) * dense_sample.within[j] * (1 + 1 / k));
    const double difference = dense_sample.values_by_run[0][j] - dense_sample.good_mean[j];
    series.value[b] = static_cast<float>(dense_sample.values_by_run[0][j]);
    series.good[b] = static_cast<float>(dense_sample.good_mean[j]);
    series.half_width[b] = static_cast<float>(limit * error);
    if (error > 0)
      series.z[b] = static_cast<float>(difference / error);
    else
      series.z[b] = difference == 0 ? 0.0f : std::copysign(INFINITY, static_cast<float>(difference));
  }
  return series;
}

// Returns the first step of block `block` in the judged run, or for block == count the step after its last.
std::vector<std::int64_t> first_steps(const PairedBlocks& blocks) {
  std::vector<std::int64_t> steps;
  const std::vector<std::int64_t>& judged = blocks.steps.front();
  for (const std::size_t edge : blocks.edges.front())
    steps.push_back(edge < judged.size() ? judged[edge] : judged.back() + 1);
  return steps;
}

bool is_load(const GateFigure& figure) {
  static constexpr std::array kKeys = {FigureKey(Metric::max_vio), FigureKey(Metric::max_vio_window),
                                       FigureKey(Metric::cv), FigureKey(Metric::entropy_norm),
                                       FigureKey(Metric::dead_fraction)};
  return figure.layer >= 0 && !figure.operand &&
         std::ranges::any_of(kKeys, [&](const FigureKey& key) { return &key.info() == figure.info; });
}

// Names the expert: the emptiest for unused experts, else the one whose load is farthest from the fair share.
void name_expert(const History& run, const GateFigure& figure, GateExit& exit) {
  const std::vector<float> load = run.utilisation(figure.layer, exit.times.back(), 1, Summary::mean);
  const bool emptiest = figure.info == &metric_info(Metric::dead_fraction);
  for (std::size_t e = 0; e < load.size(); ++e) {
    if (!std::isfinite(load[e])) continue;
    const bool is_farther =
        emptiest ? load[e] < exit.expert_load : std::abs(load[e] - 1) > std::abs(exit.expert_load - 1);
    if (exit.expert >= 0 && !is_farther) continue;
    exit.expert = to_int(e);
    exit.expert_load = load[e];
  }
}

// Blocks of `series` with a value, and the side of the band on which each is: -1, 0 or 1.
struct BandSides {
  std::vector<std::size_t> block;
  std::vector<int> side;
};

BandSides sides_of(const GateSeries& series) {
  BandSides sides;
  for (std::size_t b = 0; b < series.z.size(); ++b) {
    if (is_missing(series.z[b])) continue;
    sides.block.push_back(b);
    sides.side.push_back(int{series.z[b] > series.limit} - int{series.z[b] < -series.limit});
  }
  return sides;
}

// Returns each time in which a figure was outside for at least two blocks with a value, up to two blocks inside.
std::vector<GateExit> times_outside(std::size_t index, const GateReport& report) {
  const GateSeries& series = report.series[index];
  const auto [block, side] = sides_of(series);
  std::vector<GateExit> exits;
  for (std::size_t i = 0; i + 1 < side.size(); ++i) {
    if (side[i] == 0 || side[i + 1] != side[i]) continue;
    std::size_t last = i + 1;
    for (std::size_t next = i + 2; next < side.size() && next <= last + 2; ++next)
      if (side[next] == side[i]) last = next;
    GateExit exit{.series = index};
    exit.times = {{report.block_steps[block[i]], report.block_steps[block[last] + 1] - 1}};
    exit.is_over = last + 2 < side.size();
    std::size_t first_apart = i;
    while (first_apart > 0 && side[i] * series.z[block[first_apart - 1]] >= kApartShare * series.limit) --first_apart;
    exit.apart_since = report.block_steps[block[first_apart]];
    const bool is_above = side[i] > 0;
    exit.is_worse = !series.figure.worst || (*series.figure.worst == Worst::largest) == is_above;
    exit.value = series.value[block[last]];
    exit.good = series.good[block[last]];
    exit.half_width = series.half_width[block[last]];
    exit.z = 0;
    for (std::size_t j = i; j <= last; ++j)
      if (std::abs(series.z[block[j]]) > std::abs(exit.z)) exit.z = series.z[block[j]];
    exits.push_back(exit);
    i = last;
  }
  return exits;
}

GateExit not_finite_from(std::int64_t step, std::size_t index, const GateReport& report) {
  const GateSeries& series = report.series[index];
  GateExit exit{.series = index, .times = {{step, report.steps.last}}, .apart_since = step, .not_finite_step = step};
  const std::size_t after = std::ranges::upper_bound(report.block_steps, step) - report.block_steps.begin();
  exit.good = series.good[std::clamp<std::size_t>(after, 1, series.good.size()) - 1];
  return exit;
}

void add_exit(const History& run, std::size_t index, std::optional<std::int64_t> not_finite_step, GateReport& report) {
  std::vector<GateExit> exits = times_outside(index, report);
  if (not_finite_step) {
    std::erase_if(exits, [&](const GateExit& exit) { return exit.first_step() >= *not_finite_step; });
    exits.push_back(not_finite_from(*not_finite_step, index, report));
  }
  if (std::ranges::any_of(exits, &GateExit::is_worse))
    std::erase_if(exits, [](const GateExit& exit) { return !exit.is_worse; });
  if (exits.empty()) return;
  GateExit whole = exits.back();
  whole.times.clear();
  whole.apart_since = exits.front().apart_since;
  for (const GateExit& exit : exits) {
    whole.times.push_back(exit.times.front());
    if (std::abs(exit.z) > std::abs(whole.z)) whole.z = exit.z;
  }
  if (is_load(report.series[index].figure)) name_expert(run, report.series[index].figure, whole);
  report.exits.push_back(std::move(whole));
}

// Better: every figure that left did so to its better side, or has no better side beside a loss that is better.
GateVerdict gate_verdict_of(const GateReport& report) {
  if (report.exits.empty()) return GateVerdict::same;
  const auto figure_of = [&](const GateExit& exit) -> const GateFigure& { return report.series[exit.series].figure; };
  bool loss_is_better = false;
  for (const GateExit& exit : report.exits) {
    const GateFigure& figure = figure_of(exit);
    if (figure.worst && exit.is_worse) return GateVerdict::regressed;
    if (exit.not_finite_step) return GateVerdict::regressed;
    loss_is_better |= figure.info == &metric_info(Metric::ce_loss) || figure.info == &metric_info(Metric::val_loss);
  }
  const bool has_undirected =
      std::ranges::any_of(report.exits, [&](const GateExit& exit) { return !figure_of(exit).worst; });
  return has_undirected && !loss_is_better ? GateVerdict::differs : GateVerdict::better;
}

// Drops the good runs whose values all equal those of an earlier good run; returns their indices among the good runs.
std::vector<std::size_t> drop_repeated_runs(std::vector<GateSample>& samples) {
  std::vector<std::size_t> repeated;
  if (samples.empty()) return repeated;
  const auto is_equal = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const auto has_values_of = [&](std::size_t run, std::size_t other) {
    return std::ranges::all_of(samples, [&](const GateSample& sample) {
      return std::ranges::equal(sample.values_by_run[run], sample.values_by_run[other], is_equal);
    });
  };
  for (std::size_t run = samples.front().values_by_run.size() - 1; run > 1; --run) {
    std::size_t other = 1;
    while (other < run && !has_values_of(run, other)) ++other;
    if (other == run) continue;
    for (GateSample& sample : samples) sample.values_by_run.erase(sample.values_by_run.begin() + run);
    repeated.push_back(run - 1);
  }
  return repeated;
}

void judge_samples(const History& run, const Collector& collector, GateReport& report) {
  std::vector<DenseSample> measured;
  std::map<std::string_view, std::vector<const DenseSample*>> layers;
  std::size_t judged = 0;
  measured.reserve(collector.samples.size());
  for (const GateSample& sample : collector.samples) {
    measured.push_back(without_gaps(sample));
    if (measured.back().size() < kMinGateBlocks) continue;
    measure_spread(measured.back());
    layers[sample.figure.info->key].push_back(&measured.back());
    ++judged;
  }
  const double widening = report.good_runs() == 2 ? kWideningOfTwo : kWidening;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const GateSample& sample = collector.samples[i];
    if (measured[i].size() < kMinGateBlocks && !sample.not_finite) {
      report.not_in_all.push_back(figure_text(sample.figure));
      continue;
    }
    GateSpread spread;
    double limit = INFINITY;
    if (measured[i].size() >= kMinGateBlocks) {
      spread = spread_of(layers[sample.figure.info->key], report.good_runs());
      limit = widening * student_quantile(std::min(spread.degrees, 400.0), 1 - kGateError / (judged * spread.blocks));
    }
    report.series.push_back(series_of(sample, measured[i], spread, limit));
    add_exit(run, report.series.size() - 1, sample.not_finite, report);
  }
}

GateProblem problem_of(const GateReport& report, const PairedBlocks& blocks, const Collector& collector) {
  if (blocks.common == 0) return GateProblem::no_common_steps;
  if (collector.bad_good_run) return GateProblem::good_run_not_finite;
  if (!report.exits.empty()) return GateProblem::none;  // a loss that is not finite needs no other steps
  if (blocks.common < kMinGateSteps) return GateProblem::few_steps;
  if (collector.samples.empty()) return GateProblem::no_common_figures;
  return report.series.empty() ? GateProblem::few_steps : GateProblem::none;
}

}  // namespace

GateReport judge_gate(const HistoryPtr& run, std::span<const HistoryPtr> good) {
  std::vector<HistoryPtr> runs = {run};
  runs.insert(runs.end(), good.begin(), good.end());
  GateReport report;
  report.name = run->info().name;
  for (const HistoryPtr& history : good) report.good_names.push_back(history->info().name);
  report.settings = differing_settings(*run, good);
  for (const HistoryPtr& history : good)
    report.other_text_from = std::min(report.other_text_from, other_text_from(*run, *history));
  const PairedBlocks blocks = pairs_by_tokens(runs) ? blocks_by_tokens(runs) : blocks_by_steps(runs);
  report.by_tokens = blocks.by_tokens;
  report.common_steps = blocks.common;
  Collector collector(runs, blocks);
  if (blocks.count > 0) {
    report.block_steps = first_steps(blocks);
    report.steps = {blocks.steps.front().front(), blocks.steps.front().back()};
    collector.collect(report);
    if (!collector.bad_good_run) {
      report.repeated_runs = drop_repeated_runs(collector.samples);
      judge_samples(*run, collector, report);
    }
    std::ranges::stable_sort(report.exits, {}, &GateExit::first_step);
  }
  report.problem = problem_of(report, blocks, collector);
  report.bad_good_run = collector.bad_good_run.value_or(0);
  if (report.problem == GateProblem::none) report.verdict = gate_verdict_of(report);
  return report;
}

}  // namespace moescope
