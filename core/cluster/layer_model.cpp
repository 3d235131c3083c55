#include "core/cluster/layer_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "core/cluster/hardware.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/step_model.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr double kTileRows = 128;  // tile of a grouped GEMM on these GPUs; a group's last tile is computed as a whole

// Number of times that an element of BF16 crosses the memory bus, if eager kernels run one after another. SwiGLU
// forward: silu (1 read, 1 write), times (2, 1). Backward: two products (2, 1 each), silu (2, 1). On [n, H].
constexpr double kSwigluPasses = 14;
// Adding the input gradients of w1 and w3: 2 reads, 1 write. On [n, D].
constexpr double kGradientSumPasses = 3;
// Standard, on the T K rows that a rank sends: gather (2), times score (2), sum over K (1); backward spread (1), times
// score (2), its gradient (2), scatter (1). On the n received rows: to expert order and back (4), in both passes.
constexpr double kStandardSentPasses = 11, kStandardReceivedPasses = 8;
// DeepEP, on the n rows by expert: gather (2), times score (2), sum into the token (1); backward the same five and the
// score's gradient (2).
constexpr double kDeepEpPasses = 12;

struct Point {
  double x, ms;
};

// Replaces points of equal x by their mean, so that slopes exist.
std::vector<Point> by_size(std::vector<Point> points) {
  std::ranges::sort(points, {}, &Point::x);
  std::vector<Point> merged;
  for (std::size_t i = 0; i < points.size();) {
    double sum = 0;
    std::size_t n = 0;
    for (; i + n < points.size() && points[i + n].x == points[i].x; ++n) sum += points[i + n].ms;
    merged.push_back({points[i].x, sum / n});
    i += n;
  }
  return merged;
}

// Returns latency + size / bandwidth, interpolated linearly between points. Below the first point, the first slope is
// used within its limits (less data is never slower, and no time is negative); above the last point, the last slope is
// used. With a single point, time is proportional to size.
double time_at(std::vector<Point> points, double x) {
  points = by_size(std::move(points));
  const Point first = points.front();
  if (points.size() == 1) return first.x > 0 ? first.ms * x / first.x : first.ms;
  if (x <= first.x) {
    const double slope = (points[1].ms - first.ms) / (points[1].x - first.x);
    return first.ms - std::clamp(slope, 0.0, first.x > 0 ? first.ms / first.x : 0) * (first.x - x);
  }
  std::size_t i = 1;
  while (i + 1 < points.size() && x > points[i].x) ++i;
  const Point a = points[i - 1], b = points[i];
  double slope = (b.ms - a.ms) / (b.x - a.x);
  if (x > b.x && slope <= 0) slope = b.ms / b.x;  // more data is never faster
  return b.ms + slope * (x - b.x);
}

// Interpolates by a power law between neighbouring points. Below the first point, its exponent is limited to 0 to 1;
// above the last point, time is linear.
double power_at(std::vector<Point> points, double x) {
  points = by_size(std::move(points));
  if (x > points.back().x) return time_at(std::move(points), x);
  std::size_t i = 1;
  while (i + 1 < points.size() && x > points[i].x) ++i;
  const Point a = points[i - 1], b = points[i];
  double exponent = std::log(b.ms / a.ms) / std::log(b.x / a.x);
  if (x < a.x) exponent = std::clamp(exponent, 0.0, 1.0);
  return a.ms * std::pow(x / a.x, exponent);
}

std::vector<double> zipf_sizes(double rows, int groups, double exponent) {
  std::vector<double> sizes(groups);
  for (int g = 0; g < groups; ++g) sizes[g] = std::pow(g + 1.0, -exponent);
  const double total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  for (double& size : sizes) size *= rows / total;
  return sizes;
}

double padded_rows(const std::vector<double>& sizes) {
  double rows = 0;
  for (const double size : sizes) rows += kTileRows * std::ceil(size / kTileRows - 1e-9);
  return rows;
}

// ---- grouped GEMMs ----

std::vector<GroupedGemmPoint> points_of(const Calibration& calibration, const std::string& shape) {
  std::vector<GroupedGemmPoint> points;
  for (const GroupedGemmPoint& point : calibration.grouped_gemm)
    if (point.shape == shape) points.push_back(point);
  return points;
}

// Rows that the experts of one rank compute.
struct RankRows {
  double rows = 0, padded = 0, max_over_mean = 1;
  int groups = 1;
};

// Returns the time of one grouped GEMM with `load`, interpolated between the points of one weight.
double gemm_ms(const std::vector<GroupedGemmPoint>& points, double GroupedGemmPoint::*direction, const RankRows& load) {
  struct Level {
    std::vector<Point> times;
    double max_over_mean = 1;
  };
  std::map<double, Level> levels;  // by skew
  for (const GroupedGemmPoint& point : points) {
    const double scale = static_cast<double>(load.groups) / point.groups;
    Level& level = levels[point.skew];
    level.times.push_back(
        {padded_rows(zipf_sizes(point.tokens, point.groups, point.skew)) * scale, point.*direction * scale});
    level.max_over_mean = std::max(level.max_over_mean, point.max_over_mean);
  }
  std::vector<Point> by_skew;  // x: ln(max/mean)
  for (const auto& [skew, level] : levels)
    by_skew.push_back({std::log(level.max_over_mean), time_at(level.times, load.padded)});
  by_skew = by_size(std::move(by_skew));
  const double x = std::clamp(std::log(load.max_over_mean), by_skew.front().x, by_skew.back().x);
  return by_skew.size() == 1 ? by_skew.front().ms : time_at(by_skew, x);
}

// ---- routing ----

// Returns the distribution of the token rows over ranks: shares of all T K R rows.
std::vector<double> rank_shares(const ClusterRouting& routing, int ranks) {
  if (routing.tokens_per_expert.empty()) {
    const double fullest = std::min(1.0, std::max(1.0, routing.rank_max_over_mean) / ranks);
    std::vector<double> shares(ranks, (1 - fullest) / (ranks - 1));
    shares[0] = fullest;
    return shares;
  }
  std::vector<double> shares(ranks);
  const std::size_t local = routing.tokens_per_expert.size() / ranks;
  const double total =
      std::accumulate(routing.tokens_per_expert.begin(), routing.tokens_per_expert.end(), std::int64_t{0});
  for (int r = 0; r < ranks; ++r) {
    const auto first = routing.tokens_per_expert.begin() + r * local;
    shares[r] = std::accumulate(first, first + local, std::int64_t{0}) / total;
  }
  return shares;
}

RankRows fullest_rank(const LayerShape& shape, const ClusterRouting& routing, const std::vector<double>& shares,
                      int ranks) {
  RankRows load;
  load.groups = std::max(1, shape.n_experts / ranks);
  const auto fullest = std::ranges::max_element(shares) - shares.begin();
  load.rows = shares[fullest] * routing.tokens_per_rank * shape.top_k * ranks;
  const double mean = load.rows / load.groups;
  if (!routing.tokens_per_expert.empty()) {
    const auto first = routing.tokens_per_expert.begin() + fullest * load.groups;
    const std::vector<double> sizes(first, first + load.groups);
    load.padded = padded_rows(sizes);
    load.max_over_mean = *std::ranges::max_element(sizes) / mean;
    return load;
  }
  load.padded = load.rows + load.groups * kTileRows / 2;  // half a tile on average, for groups of any size
  load.max_over_mean =
      std::clamp(routing.expert_max_over_mean / (shares[fullest] * ranks), 1.0, static_cast<double>(load.groups));
  return load;
}

// Returns the number of token rows that the fullest rank receives through DeepEP, divided by T. A token is sent to a
// rank of share q with probability 1 - (1 - q)^d, where d is the number of the token's independent choices. d follows
// from the mean copies of a token (d = 1 if all choices are on one rank, as with forced round-robin).
double deep_ep_rows_per_token(const std::vector<double>& shares, double copies) {
  const auto reached = [&](double draws) {
    double sum = 0;
    for (const double share : shares) sum += 1 - std::pow(1 - share, draws);
    return sum;
  };
  double low = 1e-3, high = 1e4;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (reached(middle) < copies ? low : high) = middle;
  }
  const double fullest = *std::ranges::max_element(shares);
  return (1 - std::pow(1 - fullest, low)) * shares.size();
}

// ---- communication ----

double standard_all_to_all_ms(const Calibration& calibration, double bytes, double load_over_mean) {
  std::vector<Point> uniform;
  for (const AllToAllPoint& point : calibration.all_to_all) uniform.push_back({point.bytes_per_rank, point.ms});
  double ms = time_at(uniform, bytes * load_over_mean);
  if (calibration.hot_rank.empty() || load_over_mean <= 1) return ms;
  // Time with a hot rank, divided by the time with as many more bytes for every rank; relative to this ratio at load 1.
  std::vector<Point> relative;
  double at_balance = 1;
  for (const HotRankPoint& point : calibration.hot_rank) {
    const double ratio = point.ms / time_at(uniform, point.bytes_per_rank * point.load_over_mean);
    if (point.load_over_mean <= 1) at_balance = ratio;
    relative.push_back({point.load_over_mean, ratio});
  }
  for (Point& point : relative) point.ms /= at_balance;
  relative.push_back({1, 1});
  relative = by_size(std::move(relative));
  if (relative.size() == 1) return ms;
  return ms * time_at(relative, std::min(load_over_mean, relative.back().x));
}

double layout_ms(const DeepEpPoint& point) {
  return point.layout_ms;
}

double comm_ms(const DeepEpPoint& point) {
  return point.dispatch_ms + point.dispatch_cached_ms + 2 * point.combine_ms;
}

double deep_ep_ms(const Calibration& calibration, double (*part_ms)(const DeepEpPoint&), double dim, double tokens,
                  double rows_per_token) {
  std::map<double, std::vector<Point>> by_tokens;
  for (const DeepEpPoint& point : calibration.deep_ep)
    if (point.dim == dim) by_tokens[point.tokens].push_back({point.received / point.tokens, part_ms(point)});
  std::vector<Point> times;
  for (const auto& [measured, points] : by_tokens) times.push_back({measured, time_at(points, rows_per_token)});
  return power_at(times, tokens);
}

double gain(const LayerTime& standard, const LayerTime& deep_ep) {
  return standard.layer_ms() / deep_ep.layer_ms();
}

// Returns the gain that the model predicts for a routing; shape and tokens are those of `like`.
LayerGain modelled(const LayerModel& model, const MeasuredLayer& like, const std::vector<std::int32_t>& topk,
                   const std::string& name) {
  const int world = model.calibration().world;
  const VolumeFrame volume = count_volumes(topk, like.shape.top_k, like.shape.n_experts, world, world);
  const auto tokens = static_cast<std::int64_t>(topk.size()) / like.shape.top_k;
  const RoutingTraffic traffic = routing_traffic(volume, tokens, AllToAll::deep_ep);
  ClusterRouting routing = like.routing;
  routing.tokens_per_expert.assign(like.shape.n_experts, 0);
  for (const std::int32_t expert : topk) ++routing.tokens_per_expert[expert];
  routing.copies_per_token_deep_ep = traffic.copies_per_token;
  const LayerTime deep_ep = model.predict(like.shape, routing, AllToAll::deep_ep);
  const double ratio = gain(model.predict(like.shape, routing, AllToAll::standard), deep_ep);
  return {name,         traffic.copies_per_token, traffic.expert_rows_max_over_mean, std::nan(""), ratio,
          std::nan(""), deep_ep.layer_ms()};
}

LayerModel measured_model() {
  return {h200_calibration(), hardware_profile("h200").memory_copy.value};
}

const MeasuredLayer& first_layer_of(const LayerModel& model, const std::string& name) {
  for (const MeasuredLayer& layer : model.calibration().layers)
    if (layer.shape.model == name) return layer;
  throw std::runtime_error("no layer of " + name + " was measured");
}

std::int64_t tokens_of(const LayerModel& model, const MeasuredLayer& layer) {
  return static_cast<std::int64_t>(layer.routing.tokens_per_rank) * model.calibration().world;
}

}  // namespace

LayerTime LayerModel::predict(const LayerShape& shape, const ClusterRouting& routing, AllToAll kind) const {
  const int ranks = calibration_.world;
  const std::vector<double> shares = rank_shares(routing, ranks);
  const double load_over_mean = *std::ranges::max_element(shares) * ranks;
  const RankRows load = fullest_rank(shape, routing, shares, ranks);
  const double row_bytes = 2.0 * shape.dim, sent_rows = routing.tokens_per_rank * shape.top_k;
  const auto memory_ms = [&](double bytes) { return bytes / (memory_GBps_ * 1e6); };

  LayerTime time;
  const auto w1 = points_of(calibration_, shape.model + "_w1"), w2 = points_of(calibration_, shape.model + "_w2");
  double gemms = 0;
  for (const auto direction : {&GroupedGemmPoint::forward_ms, &GroupedGemmPoint::dgrad_ms, &GroupedGemmPoint::wgrad_ms})
    gemms += 2 * gemm_ms(w1, direction, load) + gemm_ms(w2, direction, load);
  time.experts_ms = kSustainedGemmSlowdown * gemms +
                    memory_ms(load.rows * (kSwigluPasses * 2 * shape.hidden + kGradientSumPasses * row_bytes));

  if (kind == AllToAll::standard) {
    time.comm_ms = 4 * standard_all_to_all_ms(calibration_, sent_rows * row_bytes, load_over_mean);
    time.rest_ms = memory_ms((kStandardSentPasses * sent_rows + kStandardReceivedPasses * load.rows) * row_bytes);
    return time;
  }
  const double rows = deep_ep_rows_per_token(shares, routing.copies_per_token_deep_ep);
  time.comm_ms = deep_ep_ms(calibration_, comm_ms, shape.dim, routing.tokens_per_rank, rows);
  time.rest_ms = memory_ms(kDeepEpPasses * load.rows * row_bytes) +
                 deep_ep_ms(calibration_, layout_ms, shape.dim, routing.tokens_per_rank, rows);
  return time;
}

std::vector<LayerComparison> compare_with_measured(const LayerModel& model) {
  std::vector<LayerComparison> rows;
  for (const auto& [shape, routing, times] : model.calibration().layers)
    for (const AllToAll kind : {AllToAll::standard, AllToAll::deep_ep}) {
      const bool standard = kind == AllToAll::standard;
      if (!standard && std::isnan(times.deep_ep_layer_ms)) continue;
      rows.push_back({shape, routing, kind, model.predict(shape, routing, kind),
                      standard ? times.standard_comm_ms : times.deep_ep_comm_ms,
                      standard ? times.standard_layer_ms : times.deep_ep_layer_ms});
    }
  return rows;
}

LayerGain layer_gain_of_load(const std::string& name, const std::vector<std::uint32_t>& load) {
  const LayerModel model = measured_model();
  const MeasuredLayer& like = first_layer_of(model, name);
  return modelled(model, like,
                  route_by_load(stretch_load(load, like.shape.n_experts), tokens_of(model, like), like.shape.top_k),
                  "this load");
}

LayerGains layer_gains(const std::string& name) {
  const LayerModel model = measured_model();
  const MeasuredLayer& like = first_layer_of(model, name);
  LayerGains gains;
  const std::vector<LayerComparison> rows = compare_with_measured(model);
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const LayerComparison &standard = rows[i], &deep_ep = rows[i + 1];
    if (standard.shape.model != name || standard.all_to_all != AllToAll::standard ||
        deep_ep.all_to_all != AllToAll::deep_ep || standard.routing.tokens_per_rank != like.routing.tokens_per_rank)
      continue;
    gains.measured.push_back(
        {standard.routing.label, standard.routing.copies_per_token_deep_ep, standard.routing.rank_max_over_mean,
         standard.measured_layer_ms / deep_ep.measured_layer_ms, gain(standard.predicted, deep_ep.predicted),
         deep_ep.measured_layer_ms, deep_ep.predicted.layer_ms(), standard.measured_comm_ms, deep_ep.measured_comm_ms});
  }
  const int top_k = like.shape.top_k, experts = like.shape.n_experts;
  const std::int64_t tokens = tokens_of(model, like);
  for (int limited = 1; limited <= 8; ++limited) {
    if (limited * experts / 8 < top_k || experts % 8) continue;
    const RoutingPattern pattern{RoutingRule::grouped, 8, limited, 1};
    gains.by_groups.push_back(modelled(model, like, route_by_pattern(pattern, tokens, top_k, experts),
                                       fmt::format("{} of 8 groups", limited)));
  }
  for (const double skew : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    const RoutingPattern pattern{RoutingRule::zipf, 8, 4, skew};
    gains.by_skew.push_back(
        modelled(model, like, route_by_pattern(pattern, tokens, top_k, experts), fmt::format("Zipf {:.1f}", skew)));
  }
  std::ranges::sort(gains.by_skew, {}, &LayerGain::rank_max_over_mean);
  return gains;
}

}  // namespace moescope
