#include "core/frame/model_scans.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/files/text/json_text.h"
#include "core/frame/describe.h"

namespace moescope {
namespace {

using nlohmann::json;

// [mean, interval]; null where a number is NaN.
json as_json(const FigureOfPieces& figure) {
  const auto number = [](double value) { return std::isnan(value) ? json() : json(value); };
  return {number(figure.mean), number(figure.interval)};
}

// Reads what as_json() writes. Throws json::exception for anything else.
FigureOfPieces figure_in(const json& figure) {
  const auto number = [&](std::size_t i) {
    const json& value = figure.at(i);
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  };
  return {number(0), number(1)};
}

const char* scope_name(PrecisionTwin::Scope scope) {
  constexpr const char* kScopes[] = {"all operands", "all layers", "one layer"};
  return kScopes[static_cast<int>(scope)];
}
using Figure = std::pair<const char*, FigureOfPieces PrecisionTwin::*>;
constexpr Figure kFigures[] = {{"divergence", &PrecisionTwin::divergence},
                               {"behind", &PrecisionTwin::behind},
                               {"loss_change", &PrecisionTwin::loss_change},
                               {"flips", &PrecisionTwin::flips}};

PrecisionTwin twin_in(const json& from) {
  PrecisionTwin twin;
  twin.scope = find_named(from.at("scope").get<std::string>(), Names{scope_name, 3}).value();
  twin.layer = from.at("layer").get<int>();
  twin.gemm_class = find_named(from.at("class").get<std::string>(), Names{gemm_class_name, kNumGemmClasses}).value();
  twin.operand =
      from.at("operand").get<std::string>() == operand_name(OperandRole::w) ? OperandRole::w : OperandRole::x;
  for (const auto& [name, member] : kFigures) twin.*member = figure_in(from.at(name));
  return twin;
}

constexpr int kMaxScannedExperts = 1 << 12;  // largest number of experts of a layer in a recording

json as_json(const ExpertCost& cost) {
  json domains = json::array();
  for (const FigureOfPieces& figure : cost.loss_by_domain) domains.push_back(as_json(figure));
  return {{"layer", cost.layer},
          {"expert", cost.expert},
          {"load", cost.load},
          {"saliency", cost.saliency},
          {"loss_change", as_json(cost.loss_change)},
          {"divergence", as_json(cost.divergence)},
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

std::string twin_name(const PrecisionTwin& twin) {
  if (twin.scope == PrecisionTwin::Scope::all_operands) return "all operands";
  std::string layer = twin.layer < 0 ? "" : fmt::format("layer {}, ", twin.layer);
  if (twin.scope == PrecisionTwin::Scope::all_layers) layer = "all layers, ";
  return layer + gemm_class_name(twin.gemm_class) + ", " + operand_name(twin.operand);
}

Fit fit_of(const PublishedFit& published, double loss, double matters) {
  const double size = std::fabs(published.loss_change.mean), interval_half_width = published.loss_change.interval;
  if (size + interval_half_width < matters * loss)
    return Fit::within;  // both comparisons are false if the interval is NaN
  return size - interval_half_width > matters * loss ? Fit::beyond : Fit::open;
}

const char* to_text(Fit fit) {
  if (fit == Fit::within) return "within";
  if (fit == Fit::beyond) return "beyond";
  return "not known";
}

const PrecisionTwin* PrecisionScan::costliest() const {
  const auto found = std::ranges::find(twins, PrecisionTwin::Scope::one_layer, &PrecisionTwin::scope);
  return found == twins.end() ? nullptr : &*found;
}

std::string scan_json(const PrecisionScan& scan) {
  json twins = json::array();
  for (const PrecisionTwin& twin : scan.twins) {
    json twin_json{{"scope", scope_name(twin.scope)},
                   {"layer", twin.layer},
                   {"class", gemm_class_name(twin.gemm_class)},
                   {"operand", operand_name(twin.operand)}};
    for (const auto& [name, member] : kFigures) twin_json[name] = as_json(twin.*member);
    twins.push_back(std::move(twin_json));
  }
  json published = json::array();
  for (const PublishedFit& fit : scan.published)
    published.push_back(
        {{"name", fit.name}, {"loss_change", as_json(fit.loss_change)}, {"divergence", as_json(fit.divergence)}});
  return json{{"recipe", recipe_info(scan.recipe).name},
              {"pieces", scan.pieces},
              {"loss", scan.loss},
              {"twins", std::move(twins)},
              {"published", std::move(published)}}
      .dump();
}

std::optional<PrecisionScan> scan_in(const std::string& text) {
  try {
    const json from = parse_json(text);
    const auto recipe = recipe_named(from.at("recipe").get<std::string>());
    if (!recipe) return std::nullopt;
    PrecisionScan scan{
        .recipe = *recipe, .pieces = from.at("pieces").get<int>(), .loss = from.at("loss").get<double>(), .twins = {}};
    for (const json& twin : from.at("twins")) scan.twins.push_back(twin_in(twin));
    if (from.contains("published"))
      for (const json& fit : from.at("published"))
        scan.published.push_back(
            {fit.at("name").get<std::string>(), figure_in(fit.at("loss_change")), figure_in(fit.at("divergence"))});
    return scan;
  } catch (const std::exception&) {  // no JSON, a missing key, an unknown name
    return std::nullopt;
  }
}

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
