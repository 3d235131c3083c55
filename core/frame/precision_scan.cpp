#include "core/frame/precision_scan.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/files/text/json_text.h"
#include "core/frame/describe.h"
#include "core/frame/figure_json.h"

namespace moescope {
namespace {

using nlohmann::json;

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

}  // namespace

std::string twin_name(const PrecisionTwin& twin) {
  if (twin.scope == PrecisionTwin::Scope::all_operands) return "all operands";
  const std::string layer = twin.scope == PrecisionTwin::Scope::all_layers ? "all layers, "
                            : twin.layer < 0                               ? ""
                                             : "layer " + std::to_string(twin.layer) + ", ";
  return layer + gemm_class_name(twin.gemm_class) + ", " + operand_name(twin.operand);
}

Fit fit_of(const PublishedFit& published, double loss, double matters) {
  const double size = std::fabs(published.loss_change.mean), interval_half_width = published.loss_change.interval;
  if (size + interval_half_width < matters * loss)
    return Fit::within;  // both comparisons are false if the interval is NaN
  return size - interval_half_width > matters * loss ? Fit::beyond : Fit::open;
}

const char* to_text(Fit fit) {
  return fit == Fit::within ? "within" : fit == Fit::beyond ? "beyond" : "not known";
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

}  // namespace moescope
