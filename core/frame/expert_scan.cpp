#include "core/frame/expert_scan.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/frame/figure_json.h"
#include "core/io/json_text.h"

namespace moescope {
namespace {

using nlohmann::json;

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

}  // namespace moescope
