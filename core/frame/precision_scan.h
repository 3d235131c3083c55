// What a number format does to a model's predictions, operand by operand: measured in
// core/checkpoints/ablation/precision_twins.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/frame/figure_of_pieces.h"
#include "core/numerics/recipes.h"

namespace moescope {

struct PrecisionTwin {
  enum class Scope : std::uint8_t { all_operands, all_layers, one_layer };
  Scope scope = Scope::one_layer;  // the head counts as a layer
  int layer = -1;                  // of one_layer; -1: the head
  GemmClass gemm_class = GemmClass::experts;
  OperandRole operand = OperandRole::x;
  FigureOfPieces loss_change = {}, divergence = {}, flips = {};
  // Divergence of the costliest twin of the same scope minus this one's, over the same pieces; an interval that holds
  // 0: the two are not told apart.
  FigureOfPieces behind = {};
};
std::string twin_name(const PrecisionTwin& twin);  // "layer 2, experts, x"; "all layers, experts, x"; "all operands"

// The forward pass of a published recipe (core/config/published_recipes.h), against FP32.
struct PublishedFit {
  std::string name;
  FigureOfPieces loss_change = {}, divergence = {};
};

// Whether its change of the loss, with the interval, is one that matters.
enum class Fit : std::uint8_t {
  within,  // the whole interval is within what matters
  beyond,  // the whole interval is outside
  open     // the interval holds both, or there is none
};
// `matters`: share of `loss`, that of FP32.
Fit fit_of(const PublishedFit& published, double loss, double matters);
const char* to_text(Fit fit);  // "within", "beyond", "not known"

struct PrecisionScan {
  Recipe recipe = Recipe::fp32;
  int pieces = 0;
  double loss = 0;                           // in FP32, nats per token, mean over pieces
  std::vector<PrecisionTwin> twins;          // all operands first, then the largest divergence first
  std::vector<PublishedFit> published = {};  // in the order of their names
  // The costliest operand of one layer; nullptr: there is none.
  const PrecisionTwin* costliest() const;
};

// A recording keeps the scan of a checkpoint in a marker of kind kOperandsMarker, at its last step, as JSON.
std::string scan_json(const PrecisionScan& scan);
std::optional<PrecisionScan> scan_in(const std::string& json);  // nullopt: it is none

}  // namespace moescope
