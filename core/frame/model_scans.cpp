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

constexpr auto kScopeName = names_of<PrecisionTwin::Scope>("all operands", "all layers", "one layer");
using Figure = std::pair<const char*, FigureOfPieces PrecisionTwin::*>;
constexpr Figure kFigures[] = {{"divergence", &PrecisionTwin::divergence},
                               {"behind", &PrecisionTwin::behind},
                               {"loss_change", &PrecisionTwin::loss_change},
                               {"flips", &PrecisionTwin::flips}};

constexpr int kMaxScannedExperts = 1 << 12;  // largest number of experts of a layer in a recording

// Returns nullopt if the text is no JSON, lacks a key or has an unknown name.
template <class Scan>
std::optional<Scan> read_scan(const std::string& text) {
  try {
    return parse_json(text).get<Scan>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

// Conversions that the JSON library finds by their names. A figure is [mean, interval], null where a number is NaN.
void to_json(json& out, const FigureOfPieces& figure) {
  const auto number = [](double value) { return std::isnan(value) ? json() : json(value); };
  out = json::array({number(figure.mean), number(figure.interval)});
}

void from_json(const json& from, FigureOfPieces& figure) {
  const auto number = [&](std::size_t i) {
    const json& value = from.at(i);
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  };
  figure = {number(0), number(1)};
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PublishedFit, name, loss_change, divergence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExpertCost, layer, expert, load, saliency, loss_change, divergence, loss_by_domain)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PrunedModel, removed, by_divergence, by_saliency, random)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExpertScan, pieces, loss, domains, experts, pruning)

void to_json(json& out, const PrecisionTwin& twin) {
  out = {{"scope", kScopeName(twin.scope)},
         {"layer", twin.layer},
         {"class", gemm_class_name(twin.gemm_class)},
         {"operand", operand_name(twin.operand)}};
  for (const auto& [name, member] : kFigures) out[name] = twin.*member;
}

void from_json(const json& from, PrecisionTwin& twin) {
  twin.scope = kScopeName.find(from.at("scope").get<std::string>()).value();
  twin.layer = from.at("layer").get<int>();
  twin.gemm_class = gemm_class_name.find(from.at("class").get<std::string>()).value();
  if (twin.gemm_class == GemmClass::payload) throw std::runtime_error("class: payload has no GEMM");
  twin.operand =
      from.at("operand").get<std::string>() == operand_name(OperandRole::w) ? OperandRole::w : OperandRole::x;
  for (const auto& [name, member] : kFigures) from.at(name).get_to(twin.*member);
}

void from_json(const json& from, PrecisionScan& scan) {
  scan = {.recipe = recipe_named(from.at("recipe").get<std::string>()).value(),
          .pieces = from.at("pieces").get<int>(),
          .loss = from.at("loss").get<double>(),
          .twins = from.at("twins").get<std::vector<PrecisionTwin>>()};
  if (from.contains("published")) from.at("published").get_to(scan.published);
}

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
  return json{{"recipe", recipe_info(scan.recipe).name},
              {"pieces", scan.pieces},
              {"loss", scan.loss},
              {"twins", scan.twins},
              {"published", scan.published}}
      .dump();
}

std::optional<PrecisionScan> scan_in(const std::string& text) {
  return read_scan<PrecisionScan>(text);
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
  return json(scan).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<ExpertScan> expert_scan_in(const std::string& text) {
  auto scan = read_scan<ExpertScan>(text);
  const auto lacks_domains = [&](const ExpertCost& cost) { return cost.loss_by_domain.size() != scan->domains.size(); };
  return scan && std::ranges::none_of(scan->experts, lacks_domains) ? std::move(scan) : std::nullopt;
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
        pairs.push_back(FigureOfPieces{rounded(layer.cosine(i, j).mean), rounded(layer.cosine(i, j).interval)});
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
        for (int j = i + 1; j < experts; ++j) layer.set(i, j, (pair++)->get<FigureOfPieces>());
    }
    return similarity;
  } catch (const std::exception&) {  // no JSON, a missing key
    return std::nullopt;
  }
}

}  // namespace moescope
