#include "core/frame/expert_scan.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/files/text/json_text.h"
#include "core/frame/figure_json.h"

namespace moescope {
namespace {

using nlohmann::json;

constexpr int kMaxScannedExperts = 1 << 12;  // largest number of experts of a layer in a recording

json as_json(const ExpertCost& cost) {
  json domains = json::array();
  for (const FigureOfPieces& figure : cost.loss_by_domain) domains.push_back(moescope::as_json(figure));
  return {{"layer", cost.layer},
          {"expert", cost.expert},
          {"load", cost.load},
          {"saliency", cost.saliency},
          {"loss_change", moescope::as_json(cost.loss_change)},
          {"divergence", moescope::as_json(cost.divergence)},
          {"loss_by_domain", std::move(domains)}};
}

ExpertCost cost_in(const json& from) {
  ExpertCost cost{.layer = from.at("layer").get<int>(),
                  .expert = from.at("expert").get<int>(),
                  .load = from.at("load").get<double>(),
                  .saliency = from.at("saliency").get<double>(),
                  .loss_change = figure_in(from.at("loss_change")),
                  .divergence = figure_in(from.at("divergence"))};
  for (const json& figure : from.at("loss_by_domain")) cost.loss_by_domain.push_back(figure_in(figure));
  return cost;
}

}  // namespace

const ExpertCost* ExpertScan::find(int layer, int expert) const {
  const auto found = std::ranges::find_if(
      experts, [&](const ExpertCost& cost) { return cost.layer == layer && cost.expert == expert; });
  return found == experts.end() ? nullptr : &*found;
}

LayerSimilarity::LayerSimilarity(int layer, int experts)
    : layer_(layer), experts_(experts), cosine_EE_(experts * static_cast<std::size_t>(experts)) {
  for (int e = 0; e < experts; ++e) set(e, e, {1, 0});
}

int LayerSimilarity::most_similar(int expert) const {
  int best = -1;
  for (int e = 0; e < experts_; ++e)
    if (e != expert && (best < 0 || cosine(expert, e).mean > cosine(expert, best).mean)) best = e;
  return best;
}

const LayerSimilarity* ExpertSimilarity::find(int layer) const {
  const auto found = std::ranges::find(layers, layer, &LayerSimilarity::layer);
  return found == layers.end() ? nullptr : &*found;
}

std::string scan_json(const ExpertScan& scan) {
  json experts = json::array(), pruning = json::array();
  for (const ExpertCost& cost : scan.experts) experts.push_back(as_json(cost));
  for (const PrunedModel& model : scan.pruning)
    pruning.push_back({{"removed", model.removed},
                       {"by_divergence", as_json(model.by_divergence)},
                       {"by_saliency", as_json(model.by_saliency)},
                       {"random", as_json(model.random)}});
  return json{{"pieces", scan.pieces},
              {"loss", scan.loss},
              {"domains", scan.domains},
              {"experts", std::move(experts)},
              {"pruning", std::move(pruning)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<ExpertScan> expert_scan_in(const std::string& text) {
  try {
    const json from = parse_json(text);
    ExpertScan scan{.pieces = from.at("pieces").get<int>(),
                    .loss = from.at("loss").get<double>(),
                    .domains = from.at("domains").get<std::vector<std::string>>()};
    for (const json& cost : from.at("experts")) {
      scan.experts.push_back(cost_in(cost));
      if (scan.experts.back().loss_by_domain.size() != scan.domains.size()) return std::nullopt;
    }
    for (const json& model : from.at("pruning"))
      scan.pruning.push_back({model.at("removed").get<int>(), figure_in(model.at("by_divergence")),
                              figure_in(model.at("by_saliency")), figure_in(model.at("random"))});
    return scan;
  } catch (const std::exception&) {  // no JSON, a missing key
    return std::nullopt;
  }
}

// Writes the cosines of the pairs (0, 1), (0, 2), ..., (1, 2), ...
std::string similarity_json(const ExpertSimilarity& similarity) {
  constexpr double kDecimals = 1e6;
  const auto rounded = [](double value) { return std::round(value * kDecimals) / kDecimals; };
  json layers = json::array();
  for (const LayerSimilarity& layer : similarity.layers) {
    json pairs = json::array();
    for (int i = 0; i < layer.experts(); ++i)
      for (int j = i + 1; j < layer.experts(); ++j)
        pairs.push_back(
            as_json(FigureOfPieces{rounded(layer.cosine(i, j).mean), rounded(layer.cosine(i, j).interval)}));
    layers.push_back({{"layer", layer.layer()}, {"experts", layer.experts()}, {"cosines", std::move(pairs)}});
  }
  return json{{"pieces", similarity.pieces}, {"layers", std::move(layers)}}.dump();
}

std::optional<ExpertSimilarity> similarity_in(const std::string& text) {
  try {
    const json from = parse_json(text);
    ExpertSimilarity similarity{.pieces = from.at("pieces").get<int>()};
    for (const json& layer_json : from.at("layers")) {
      const int experts = layer_json.at("experts").get<int>();
      const json& pairs = layer_json.at("cosines");
      if (experts < 1 || experts > kMaxScannedExperts ||
          pairs.size() != static_cast<std::size_t>(experts * (experts - 1) / 2))
        return std::nullopt;
      LayerSimilarity& layer = similarity.layers.emplace_back(layer_json.at("layer").get<int>(), experts);
      auto pair = pairs.begin();
      for (int i = 0; i < experts; ++i)
        for (int j = i + 1; j < experts; ++j) layer.set(i, j, figure_in(*pair++));
    }
    return similarity;
  } catch (const std::exception&) {  // no JSON, a missing key
    return std::nullopt;
  }
}

}  // namespace moescope
