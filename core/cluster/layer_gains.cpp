#include "core/cluster/layer_gains.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/cluster/hardware.h"
#include "core/cluster/layer_model.h"
#include "core/cluster/ranks/load_routing.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/step_model.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

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
