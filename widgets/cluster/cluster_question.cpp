#include "widgets/cluster/cluster_question.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "core/cluster/kept_results.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/frame/router_stats.h"
#include "core/model/moe/expert_placement.h"

namespace moescope {
namespace {

constexpr int kRanksPerNode = 8;
constexpr std::int64_t kTokens = 65536;  // enough that sampling changes max/mean of 32 ranks by less than 1 %

constexpr std::size_t kMaxLayers = 8;  // layers of a run whose costs are computed
constexpr std::size_t kKeptTraffic = 512;

// Tokens of one layer, routed over the model's experts.
struct RoutedLayer {
  std::vector<std::uint64_t> load_E;
  std::vector<std::int32_t> topk;
  int top_k = 0;
};

// Places the experts of the run if possible, else those of the model, for which a placement by hand is not known.
Placement place_experts(const ClusterQuestion& q, std::span<const std::uint64_t> load_E) {
  const int n_experts = to_int(load_E.size()), own_experts = to_int(q.live_load.size());
  const PlacementSite site{q.layer, q.ep, kRanksPerNode, 1};
  if (!has_own_ranks(q, n_experts)) return place({q.placement.kind, {}}, site, n_experts, load_E);
  const std::vector<std::uint64_t> own_load_E(q.live_load.begin(), q.live_load.end());
  return widened(place(q.placement, site, own_experts, own_load_E), n_experts / own_experts);
}

RoutedLayer routed(const ClusterQuestion& q) {
  const ModelShape shape = step_config(q).shape;
  const int n_experts = to_int(shape.n_experts), top_k = to_int(shape.top_k);
  const bool is_live = q.routing == AskedRouting::live;
  if (is_live && q.live_load.empty()) throw std::runtime_error("No open run has tokens per expert");
  RoutedLayer layer{{}, {}, top_k};
  const std::vector<double> load = load_in_order(is_live ? q.live_load : std::vector<std::uint32_t>(), n_experts);
  layer.topk = is_live ? route_by_load(load, kTokens, top_k)
                       : route_by_pattern({RoutingRule::round_robin}, kTokens, top_k, n_experts);
  for (const double u : load) layer.load_E.push_back(std::llround(u * kTokens));
  return layer;
}

// The layers whose mean is the time of the step.
std::vector<ClusterQuestion> layers_of(const ClusterQuestion& q) {
  if (q.routing == AskedRouting::forced || q.loads.load_L.empty()) return {q};
  std::vector<ClusterQuestion> layers(q.loads.load_L.size(), q);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].layer = q.loads.layer_L[i];
    layers[i].live_load = q.loads.load_L[i];
  }
  return layers;
}

VolumeFrame volume_of(const RoutedLayer& layer, const Placement& placement) {
  return count_volumes(layer.topk, layer.top_k, placement, kRanksPerNode);
}

using Traffic = std::array<RoutingTraffic, 2>;  // of a layer, [AllToAll]
Traffic traffic_of(const RoutedLayer& layer, const Placement& placement) {
  const VolumeFrame volume = volume_of(layer, placement);
  return {routing_traffic(volume, kTokens, AllToAll::standard), routing_traffic(volume, kTokens, AllToAll::deep_ep)};
}

// The mean over layers; all have the same parts.
StepTime mean_time(const LayeredStep& step, const StepParameters& parameters) {
  StepTime mean;
  const auto layers = static_cast<double>(step.traffic_L.size());
  StepConfig config = step.config;
  for (const RoutingTraffic& traffic : step.traffic_L) {
    config.traffic = traffic;
    StepTime time = step_time(config, parameters);
    if (mean.parts.empty()) {
      mean.parts = time.parts;
      for (StepPart& part : mean.parts) part.ms = 0;
    }
    for (std::size_t i = 0; i < mean.parts.size(); ++i) mean.parts[i].ms += time.parts[i].ms / layers;
    mean.ms_per_token += time.ms_per_token / layers;
    mean.network_bytes += time.network_bytes / layers;
    mean.nvlink_bytes += time.nvlink_bytes / layers;
    mean.duplication = time.duplication;
    mean.stretch += (time.stretch - 1) / layers;
  }
  mean.tokens_per_second = 1e3 / mean.ms_per_token;
  return mean;
}

void fill(const ClusterQuestion& q, ClusterAnswer& a) {
  a.config = step_config(q);
  const RoutedLayer shown = routed(q);
  const Placement placement = place_experts(q, shown.load_E);
  a.tokens = kTokens;
  a.fullest_rank = rank_imbalance(placement, shown.load_E);
  a.volume = volume_of(shown, placement);
  a.config.traffic = routing_traffic(a.volume, a.tokens, q.all_to_all);
  a.parameters = fit_to_published(Hypothesis::h2);
  const int degrees[] = {q.ep};
  const LayeredStep step{a.config, layer_traffic(q, degrees).front()[static_cast<int>(q.all_to_all)]};
  a.time = mean_time(step, a.parameters);
  if (step.traffic_L.size() > 1)  // the texts are of one of the layers, the one with the smallest imbalance
    for (StepPart& part : a.time.parts)
      part.how = "mean of " + std::to_string(step.traffic_L.size()) + " layers; in the most even one: " + part.how;
  a.band = throughput_band(step, Hypothesis::h2);
}

}  // namespace

bool has_own_ranks(const ClusterQuestion& question, int n_experts) {
  const int own_experts = to_int(question.live_load.size());
  return own_experts > 0 && n_experts % own_experts == 0 && own_experts % question.ep == 0 &&
         placement_problem(question.placement, own_experts, question.ep).empty();
}

StepConfig step_config(const ClusterQuestion& question) {
  StepConfig config = published_b200_config(question.mxfp8, question.all_to_all);
  config.hardware = hardware_profile(question.hardware);
  config.payload = question.payload;
  return config;
}

QString LayerLoads::text() const {
  if (layers == 1) return QString("layer %1").arg(fullest());
  const QString sampled = layers > load_L.size() ? QString("%1 of ").arg(load_L.size()) : QString();
  return QString("mean of %1%2 layers").arg(sampled).arg(layers);
}

// Returns the load of the fullest of `ep` ranks that have the experts in order.
static double fullest_rank(std::span<const std::uint32_t> tokens, int ep) {
  const std::vector<double> load_E = load_in_order(tokens, kModelExperts);
  std::vector<double> load_R(ep);
  for (std::size_t e = 0; e < load_E.size(); ++e) load_R[e * ep / load_E.size()] += load_E[e];
  return std::ranges::max(load_R);
}

LayerLoads layer_loads(const TelemetryFrame& frame, int ep) {
  std::vector<const RouterFrame*> routers;
  for (const RouterFrame& router : frame.routers)
    if (!router.tokens_per_expert.empty()) routers.push_back(&router);
  std::ranges::sort(routers, {},
                    [ep](const RouterFrame* router) { return fullest_rank(router->tokens_per_expert, ep); });
  LayerLoads loads{routers.size(), {}, {}};
  const std::size_t layer_count = std::min(loads.layers, kMaxLayers);
  for (std::size_t i = 1; i <= layer_count; ++i) {
    const RouterFrame& router = *routers[i * loads.layers / layer_count - 1];
    loads.layer_L.push_back(router.layer);
    loads.load_L.push_back(router.tokens_per_expert);
  }
  return loads;
}

std::vector<TrafficByKind> layer_traffic(const ClusterQuestion& question, std::span<const int> degrees) {
  // GPU, formats and all-to-all change no traffic.
  static KeptResults<std::tuple<std::vector<std::uint32_t>, int, AskedRouting, int, std::string>, Traffic> kept_traffic(
      kKeptTraffic);
  std::vector<TrafficByKind> traffic(degrees.size());
  for (ClusterQuestion& layer_question : layers_of(question)) {
    std::optional<RoutedLayer> layer;  // routed if a degree is new
    for (std::size_t i = 0; i < degrees.size(); ++i) {
      layer_question.ep = degrees[i];
      const Traffic counted =
          kept_traffic.get({layer_question.live_load, layer_question.layer, layer_question.routing, layer_question.ep,
                            placement_choice_text(layer_question.placement)},
                           [&] {
                             if (!layer) layer = routed(layer_question);
                             return traffic_of(*layer, place_experts(layer_question, layer->load_E));
                           });
      for (std::size_t kind = 0; kind < counted.size(); ++kind) traffic[i][kind].push_back(counted[kind]);
    }
  }
  return traffic;
}

ClusterAnswer answer(const ClusterQuestion& question) {
  ClusterAnswer result;
  try {
    fill(question, result);
  } catch (const std::runtime_error& e) {
    result.problem = e.what();
  }
  return result;
}

}  // namespace moescope
