#include "core/cluster/layer_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "core/cluster/hardware.h"
#include "core/cluster/model_shape.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/step_model.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::quiet_NaN();
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
  if (points.empty()) return kNoTime;
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

// Extrapolates from a single point by the square root. The time is between constant (latency) and proportional
// (bandwidth), and the exponent 1/2 has the smallest error in the worst case.
double halfway_at(const Point& only, double x) {
  return only.ms * std::sqrt(x / only.x);
}

// Interpolates by a power law between neighbouring points. Below the first point, its exponent is limited to 0 to 1;
// above the last point, time is linear.
double power_at(std::vector<Point> points, double x) {
  points = by_size(std::move(points));
  if (points.size() < 2 || x > points.back().x) return time_at(std::move(points), std::max(x, 0.0));
  std::size_t i = 1;
  while (i + 1 < points.size() && x > points[i].x) ++i;
  const Point a = points[i - 1], b = points[i];
  if (!(a.ms > 0 && b.ms > 0)) return time_at(std::move(points), x);  // a part that takes no time
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

void add_note(std::vector<std::string>& notes, std::string note) {
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
}

// ---- grouped GEMMs ----

bool has_gemms(const Calibration& calibration, const std::string& name) {
  return std::ranges::any_of(calibration.grouped_gemm, [&](const GroupedGemmPoint& point) {
    return point.shape == name + "_w1" || point.shape == name + "_w2";
  });
}

// Returns the model whose grouped GEMMs a layer uses: the longest part of the layer's name before an underscore for
// which the file has GEMMs ("671B_slice" uses "671B_w1"). A layer with another name, or with none, uses the GEMMs of
// the published shape with its D and H. Empty if there are none.
std::string gemm_model(const Calibration& calibration, const LayerShape& shape) {
  for (std::string name = shape.model; !name.empty();) {
    if (has_gemms(calibration, name)) return name;
    const std::size_t underscore = name.rfind('_');
    name.resize(underscore == std::string::npos ? 0 : underscore);
  }
  for (const ModelShape& published : model_shapes())
    if (published.dim == shape.dim && published.moe_inter == shape.hidden && has_gemms(calibration, published.name))
      return published.name;
  return {};
}

// Returns the number of groups G that fits the most skewed row best: for Zipf(s) over G groups, max/mean is G / sum
// i^-s. 0 if no row is skewed.
int infer_groups(const std::vector<GroupedGemmPoint>& points) {
  const GroupedGemmPoint* largest = nullptr;
  for (const GroupedGemmPoint& point : points)
    if (point.skew > 0 && (!largest || point.tokens * point.skew > largest->tokens * largest->skew)) largest = &point;
  if (!largest) return 0;
  int best = 0;
  double best_error = std::numeric_limits<double>::infinity(), sum = 0;
  for (int groups = 1; groups <= 1024; ++groups) {
    sum += std::pow(groups, -largest->skew);
    const double error = std::fabs(groups / sum - largest->max_over_mean);
    if (error < best_error) {
      best_error = error;
      best = groups;
    }
  }
  return best;
}

std::vector<GroupedGemmPoint> points_of(const Calibration& calibration, const std::string& shape) {
  std::vector<GroupedGemmPoint> points;
  for (const GroupedGemmPoint& point : calibration.grouped_gemm)
    if (point.shape == shape) points.push_back(point);
  return points;
}

int measured_groups(const std::vector<GroupedGemmPoint>& points) {
  for (const GroupedGemmPoint& point : points)
    if (point.groups) return point.groups;
  return infer_groups(points);
}

// Rows that the experts of one rank compute.
struct RankRows {
  double rows = 0, padded = 0, max_over_mean = 1;
  int groups = 1;
};

double direction_ms(const GroupedGemmPoint& point, double GroupedGemmPoint::*direction) {
  const double ms = point.*direction;
  return std::isnan(ms) ? point.forward_ms : ms;
}

// Returns the time of one grouped GEMM with `load`, interpolated between the points of one weight.
double gemm_ms(const std::vector<GroupedGemmPoint>& points, double GroupedGemmPoint::*direction, const RankRows& load) {
  const int inferred = measured_groups(points);
  struct Level {
    std::vector<Point> times;
    double max_over_mean = 1;
  };
  std::map<double, Level> levels;  // by skew
  for (const GroupedGemmPoint& point : points) {
    int groups = load.groups;
    if (inferred) groups = inferred;
    if (point.groups) groups = point.groups;
    const double scale = static_cast<double>(load.groups) / groups;
    Level& level = levels[point.skew];
    level.times.push_back(
        {padded_rows(zipf_sizes(point.tokens, groups, point.skew)) * scale, direction_ms(point, direction) * scale});
    level.max_over_mean = std::max(level.max_over_mean, point.max_over_mean);
  }
  if (levels.empty()) return kNoTime;
  std::vector<Point> by_skew;  // x: ln(max/mean)
  for (const auto& [skew, level] : levels)
    by_skew.push_back({std::log(level.max_over_mean), time_at(level.times, load.padded)});
  by_skew = by_size(std::move(by_skew));
  const double x = std::clamp(std::log(load.max_over_mean), by_skew.front().x, by_skew.back().x);
  return by_skew.size() == 1 ? by_skew.front().ms : time_at(by_skew, x);
}

// ---- routing ----

// Returns the rows of the fullest rank over the mean for a Zipf routing of which only the exponent is known, averaged
// over random orders of the experts' popularity.
double zipf_max_over_mean(const LayerShape& shape, double skew, int ranks) {
  constexpr int kPlacements = 16, kTokens = 2048;
  double sum = 0;
  for (int seed = 1; seed <= kPlacements; ++seed) {
    RoutingPattern pattern;
    pattern.rule = RoutingRule::zipf;
    pattern.zipf_exponent = skew;
    std::vector<double> rows(ranks);
    for (const std::int32_t e : route_by_pattern(pattern, kTokens, shape.top_k, shape.n_experts, seed))
      ++rows[e / (shape.n_experts / ranks)];
    sum += *std::ranges::max_element(rows) * ranks / (kTokens * shape.top_k);
  }
  return sum / kPlacements;
}

// Returns the distribution of the token rows over ranks: shares of all T K R rows.
std::vector<double> rank_shares(const LayerShape& shape, const ClusterRouting& routing, int ranks,
                                std::vector<std::string>& notes) {
  std::vector<double> shares(ranks, 1.0 / ranks);
  if (!routing.tokens_per_expert.empty()) {
    const std::size_t local = routing.tokens_per_expert.size() / ranks;
    const double total =
        std::accumulate(routing.tokens_per_expert.begin(), routing.tokens_per_expert.end(), std::int64_t{0});
    for (int r = 0; r < ranks; ++r) {
      const auto first = routing.tokens_per_expert.begin() + r * local;
      shares[r] = std::accumulate(first, first + local, std::int64_t{0}) / total;
    }
    return shares;
  }
  double max_over_mean = routing.rank_max_over_mean;
  if (!std::isnan(max_over_mean)) {
    add_note(notes, "ep_layer: rows without tokens_per_expert take the fullest rank from rank_max_over_mean");
  } else if (routing.skew > 0 && shape.n_experts % ranks == 0 && shape.top_k <= shape.n_experts) {
    add_note(notes,
             "ep_layer: rows without tokens_per_expert and rank_max_over_mean take the fullest rank of their Zipf "
             "exponent, the mean over random placements");
    max_over_mean = zipf_max_over_mean(shape, routing.skew, ranks);
  } else {
    add_note(notes, "ep_layer: rows without tokens_per_expert and rank_max_over_mean are taken as balanced over ranks");
    return shares;
  }
  if (ranks == 1) return shares;
  shares[0] = std::min(1.0, std::max(1.0, max_over_mean) / ranks);
  for (int r = 1; r < ranks; ++r) shares[r] = (1 - shares[0]) / (ranks - 1);
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
  double spread = 1;
  if (!std::isnan(routing.expert_max_over_mean))
    spread = routing.expert_max_over_mean / (shares[fullest] * ranks);
  else if (!std::isnan(routing.skew))
    spread = zipf_sizes(load.groups, load.groups, routing.skew).front();
  load.max_over_mean = std::clamp(spread, 1.0, static_cast<double>(load.groups));
  return load;
}

// Returns the mean number of distinct ranks of a token for a routing by rule; NaN if the label is not a rule.
double copies_by_rule(const LayerShape& shape, const ClusterRouting& routing, int ranks) {
  constexpr int kMaxRanks = 512, kMaxSlots = 1 << 12;  // limits for a quick count, which no layer exceeds
  if (routing.label.empty() || shape.n_experts % ranks || ranks > kMaxRanks || shape.top_k > kMaxSlots) return kNoTime;
  try {
    const RoutingPattern pattern = parse_routing_pattern(routing.label);
    if (pattern.rule == RoutingRule::zipf) return kNoTime;  // only tokens_per_expert shows which experts are popular
    const std::int64_t tokens = static_cast<std::int64_t>(ranks) * std::max(1, std::min(256, kMaxSlots / shape.top_k));
    const auto topk = route_by_pattern(pattern, tokens, shape.top_k, shape.n_experts);
    const VolumeFrame volume = count_volumes(topk, shape.top_k, shape.n_experts, ranks, ranks);
    const double copies = std::accumulate(volume.distinct_RR.begin(), volume.distinct_RR.end(), 0.0);
    return copies / tokens;
  } catch (const std::runtime_error&) {
    return kNoTime;  // "skewed:0.6", or a rule that does not fit this shape
  }
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
  return std::isnan(point.layout_ms) ? 0 : point.layout_ms;
}

double comm_ms(const DeepEpPoint& point) {
  const double cached = std::isnan(point.dispatch_cached_ms) ? point.dispatch_ms : point.dispatch_cached_ms;
  return point.dispatch_ms + cached + 2 * point.combine_ms;
}

double deep_ep_ms(const Calibration& calibration, double (*part_ms)(const DeepEpPoint&), double dim, double tokens,
                  double rows_per_token) {
  std::map<double, std::map<double, std::vector<Point>>> by_dim_tokens;
  for (const DeepEpPoint& point : calibration.deep_ep)
    by_dim_tokens[point.dim][point.tokens].push_back({point.received / point.tokens, part_ms(point)});
  const auto at_dim = [&](const std::map<double, std::vector<Point>>& by_tokens) {
    std::vector<Point> times;
    for (const auto& [measured, points] : by_tokens) {
      const std::vector<Point> sizes = by_size(points);
      times.push_back(
          {measured, sizes.size() == 1 ? halfway_at(sizes[0], rows_per_token) : time_at(sizes, rows_per_token)});
    }
    return power_at(times, tokens);
  };
  if (const auto exact = by_dim_tokens.find(dim); exact != by_dim_tokens.end()) return at_dim(exact->second);
  std::vector<Point> by_dim;
  for (const auto& [measured, by_tokens] : by_dim_tokens) by_dim.push_back({measured, at_dim(by_tokens)});
  return by_dim.size() == 1 ? halfway_at(by_dim[0], dim) : power_at(by_dim, dim);
}

constexpr const char* kFile = "calibration/h200x8.json";

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
  routing.label.clear();
  routing.tokens_per_expert.assign(like.shape.n_experts, 0);
  for (const std::int32_t expert : topk) ++routing.tokens_per_expert[expert];
  routing.skew = routing.expert_max_over_mean = std::nan("");
  routing.rank_max_over_mean = traffic.expert_rows_max_over_mean;
  routing.copies_per_token_deep_ep = traffic.copies_per_token;
  std::vector<std::string> notes;
  const LayerTime deep_ep = model.predict(like.shape, routing, AllToAll::deep_ep, notes);
  const double ratio = gain(model.predict(like.shape, routing, AllToAll::standard, notes), deep_ep);
  return {name,         traffic.copies_per_token, traffic.expert_rows_max_over_mean, std::nan(""), ratio,
          std::nan(""), deep_ep.layer_ms()};
}

LayerModel measured_model() {
  Calibration calibration = parse_calibration(asset(kFile), kFile);
  const HardwareProfile* profile = profile_of_gpu(calibration.gpu);
  return LayerModel(std::move(calibration), (profile ? *profile : hardware_profile("h200")).memory_copy.value);
}

const MeasuredLayer& first_layer_of(const LayerModel& model, const std::string& name) {
  for (const MeasuredLayer& layer : model.calibration().layers)
    if (layer.shape.model == name) return layer;
  throw std::runtime_error(std::string(kFile) + " has no layer of " + name);
}

// Fills in the values of the layer's shape that the file omits.
MeasuredLayer completed(const LayerModel& model, MeasuredLayer layer) {
  std::vector<std::string> notes;
  layer.shape = model.complete(layer.shape, layer.routing, notes);
  return layer;
}

std::int64_t tokens_of(const LayerModel& model, const MeasuredLayer& layer) {
  return static_cast<std::int64_t>(layer.routing.tokens_per_rank) * model.calibration().world;
}

}  // namespace

LayerModel::LayerModel(Calibration calibration, double memory_copy_GBps) : calibration_(std::move(calibration)) {
  memory_GBps_ = std::isnan(calibration_.memory_copy_GBps) ? memory_copy_GBps : calibration_.memory_copy_GBps;
}

LayerShape LayerModel::complete(const LayerShape& stated_shape, const ClusterRouting& routing,
                                std::vector<std::string>& notes) const {
  LayerShape shape = stated_shape;
  const std::string row_name = "ep_layer: " + (shape.model.empty() ? std::string("a row without model") : shape.model);
  const std::string gemms = gemm_model(calibration_, shape);
  const ModelShape* published = find_model_shape(shape.model);
  if (!published) published = find_model_shape(shape.model.substr(0, shape.model.find('_')));
  const auto fill = [&](int& value, const char* name, std::int64_t known) {
    if (value) return;
    if (!known) {
      throw std::runtime_error(calibration_.path + ": " + row_name + " has no " + name +
                               ", and no published shape has its name");
    }
    value = to_int(known);
    add_note(notes, row_name + " has no " + name + "; taken as " + std::to_string(known) + " from the published shape");
  };
  fill(shape.dim, "D", published ? published->dim : 0);
  fill(shape.hidden, "H", published ? published->moe_inter : 0);
  fill(shape.top_k, "top_k", published ? published->top_k : 0);
  if (shape.n_experts == 0 && !routing.tokens_per_expert.empty())
    shape.n_experts = to_int(routing.tokens_per_expert.size());
  if (const int groups = gemms.empty() ? 0 : measured_groups(points_of(calibration_, gemms + "_w1"));
      shape.n_experts == 0 && groups) {
    shape.n_experts = groups * calibration_.world;
    add_note(notes, row_name + " has no E; taken as " + std::to_string(shape.n_experts) + ", the " +
                        std::to_string(groups) + " groups of its grouped_gemm on each of " +
                        std::to_string(calibration_.world) + " ranks");
  }
  fill(shape.n_experts, "E", published ? published->n_experts : 0);
  return shape;
}

LayerTime LayerModel::predict(const LayerShape& stated_shape, const ClusterRouting& routing, AllToAll kind,
                              std::vector<std::string>& notes) const {
  const LayerShape shape = complete(stated_shape, routing, notes);
  const int ranks = calibration_.world;
  const std::vector<double> shares = rank_shares(shape, routing, ranks, notes);
  const double load_over_mean = *std::ranges::max_element(shares) * ranks;
  const RankRows load = fullest_rank(shape, routing, shares, ranks);
  const double row_bytes = 2.0 * shape.dim, sent_rows = routing.tokens_per_rank * shape.top_k;
  const auto memory_ms = [&](double bytes) { return bytes / (memory_GBps_ * 1e6); };

  LayerTime time;
  const std::string model = gemm_model(calibration_, shape);
  const auto w1 = points_of(calibration_, model + "_w1"), w2 = points_of(calibration_, model + "_w2");
  if (w1.empty() || w2.empty()) {
    add_note(notes, "grouped_gemm: has no " + (shape.model.empty() ? "shape MODEL" : shape.model) +
                        "_w1 and _w2, nor a published shape of D " + std::to_string(shape.dim) + ", H " +
                        std::to_string(shape.hidden) + "; no time for these experts");
  } else if (!measured_groups(w1) || !measured_groups(w2)) {
    add_note(notes, "grouped_gemm: neither groups nor a skewed row; as many groups as the layer has experts a rank");
  }
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
  double copies = routing.copies_per_token_deep_ep;
  if (std::isnan(copies)) {
    copies = copies_by_rule(shape, routing, ranks);
    add_note(notes,
             "ep_layer: rows without copies_per_token_deep_ep count the ranks of a token from the routing's rule "
             "or, without one, as K independent choices");
  }
  if (std::isnan(copies)) {
    copies = 0;
    for (const double share : shares) copies += 1 - std::pow(1 - share, shape.top_k);
  }
  std::set<double> dims;
  for (const DeepEpPoint& point : calibration_.deep_ep) dims.insert(point.dim);
  if (dims.size() == 1 && *dims.begin() != shape.dim)
    add_note(notes,
             "deep_ep: measured at one D only; another is taken to cost as the square root of its width, halfway "
             "between latency and bandwidth");
  const double rows = deep_ep_rows_per_token(shares, copies);
  time.comm_ms = deep_ep_ms(calibration_, comm_ms, shape.dim, routing.tokens_per_rank, rows);
  time.rest_ms = memory_ms(kDeepEpPasses * load.rows * row_bytes) +
                 deep_ep_ms(calibration_, layout_ms, shape.dim, routing.tokens_per_rank, rows);
  return time;
}

namespace {

ErrorSummary summarize(std::vector<double> errors) {
  std::erase_if(errors, [](double error) { return std::isnan(error); });
  if (errors.empty()) return {0, kNoTime, kNoTime};
  std::ranges::sort(errors);
  const std::size_t n = errors.size();
  return {to_int(n), (errors[(n - 1) / 2] + errors[n / 2]) / 2, errors.back()};
}

}  // namespace

CalibrationReport compare_with_measured(const LayerModel& model) {
  CalibrationReport report;
  report.notes = model.calibration().missing;
  std::vector<double> layer, comm, experts;
  for (const MeasuredLayer& measured : model.calibration().layers) {
    const LayerTimes& times = measured.times;
    const bool has_deep_ep = !std::isnan(times.deep_ep_layer_ms) || !std::isnan(times.deep_ep_comm_ms);
    for (const AllToAll kind : {AllToAll::standard, AllToAll::deep_ep}) {
      const bool standard = kind == AllToAll::standard;
      if (!standard && !has_deep_ep && model.calibration().deep_ep.empty()) continue;
      LayerComparison row{model.complete(measured.shape, measured.routing, report.notes),
                          measured.routing,
                          kind,
                          model.predict(measured.shape, measured.routing, kind, report.notes),
                          standard ? times.standard_comm_ms : times.deep_ep_comm_ms,
                          standard ? times.standard_layer_ms : times.deep_ep_layer_ms,
                          times.experts_ms};
      comm.push_back(std::fabs(row.predicted.comm_ms / row.measured_comm_ms - 1));
      layer.push_back(std::fabs(row.predicted.layer_ms() / row.measured_layer_ms - 1));
      if (standard) experts.push_back(std::fabs(row.predicted.experts_ms / row.measured_experts_ms - 1));
      report.rows.push_back(std::move(row));
    }
  }
  report.layer = summarize(std::move(layer));
  report.comm = summarize(std::move(comm));
  report.experts = summarize(std::move(experts));
  return report;
}

LayerGain layer_gain_of_load(const std::string& name, const std::vector<std::uint32_t>& load) {
  const LayerModel model = measured_model();
  const MeasuredLayer like = completed(model, first_layer_of(model, name));
  return modelled(model, like,
                  route_by_load(stretch_load(load, like.shape.n_experts), tokens_of(model, like), like.shape.top_k),
                  "the load of the layer that you look at");
}

LayerGains layer_gains(const std::string& name) {
  const LayerModel model = measured_model();
  const MeasuredLayer& like = first_layer_of(model, name);
  LayerGains gains;
  const CalibrationReport report = compare_with_measured(model);
  for (std::size_t i = 0; i + 1 < report.rows.size(); ++i) {
    const LayerComparison &standard = report.rows[i], &deep_ep = report.rows[i + 1];
    if (standard.shape.model != name || standard.all_to_all != AllToAll::standard ||
        deep_ep.all_to_all != AllToAll::deep_ep || standard.routing.tokens_per_rank != like.routing.tokens_per_rank)
      continue;
    gains.measured.push_back(
        {standard.routing.label, standard.routing.copies_per_token_deep_ep, standard.routing.rank_max_over_mean,
         standard.measured_layer_ms / deep_ep.measured_layer_ms, gain(standard.predicted, deep_ep.predicted),
         deep_ep.measured_layer_ms, deep_ep.predicted.layer_ms()});
  }
  const MeasuredLayer shaped = completed(model, like);
  const int top_k = shaped.shape.top_k, experts = shaped.shape.n_experts;
  const std::int64_t tokens = tokens_of(model, shaped);
  for (int limited = 1; limited <= 8; ++limited) {
    if (limited * experts / 8 < top_k || experts % 8) continue;
    const RoutingPattern pattern{RoutingRule::grouped, 8, limited, 1};
    gains.by_groups.push_back(modelled(model, shaped, route_by_pattern(pattern, tokens, top_k, experts),
                                       std::to_string(limited) + " of 8 groups"));
  }
  for (const double skew : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    const RoutingPattern pattern{RoutingRule::zipf, 8, 4, skew};
    gains.by_skew.push_back(
        modelled(model, shaped, route_by_pattern(pattern, tokens, top_k, experts), formatted("Zipf %.1f", skew)));
  }
  std::ranges::sort(gains.by_skew, {}, &LayerGain::rank_max_over_mean);
  return gains;
}

}  // namespace moescope
