// The effect of a number format on a model's predictions, operand by operand, measured by
// core/checkpoints/ablation/scans.h.
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
  int layer = -1;                  // for the scope one_layer; -1: the head
  GemmClass gemm_class = GemmClass::experts;
  OperandRole operand = OperandRole::x;
  FigureOfPieces loss_change = {}, divergence = {}, flips = {};
  // Divergence of the costliest twin of the same scope minus the divergence of this twin, over the same pieces. If the
  // interval contains 0, the two are not told apart.
  FigureOfPieces behind = {};
};
std::string twin_name(const PrecisionTwin& twin);  // "layer 2, experts, x"; "all layers, experts, x"; "all operands"

// Effect of a published recipe (core/config/config_toml.h) in the forward pass, against FP32.
struct PublishedFit {
  std::string name;
  FigureOfPieces loss_change = {}, divergence = {};
};

// Says whether the change of the loss by a published recipe is small enough, judged by its interval.
enum class Fit : std::uint8_t {
  within,  // the whole interval is below the limit
  beyond,  // the whole interval is above the limit
  open     // the interval contains the limit, or there is no interval
};
// Compares the absolute change of the loss with the limit `matters` times `loss`, the loss in FP32.
Fit fit_of(const PublishedFit& published, double loss, double matters);
const char* to_text(Fit fit);  // "within", "beyond", "not known"

struct PrecisionScan {
  Recipe recipe = Recipe::fp32;
  int pieces = 0;
  double loss = 0;                           // loss in FP32, nats per token, mean over pieces
  std::vector<PrecisionTwin> twins;          // all operands first, then the largest divergence first
  std::vector<PublishedFit> published = {};  // in the order of their names
  // Returns the costliest operand of one layer; nullptr if there is none.
  const PrecisionTwin* costliest() const;
};

// A recording keeps the scan of a checkpoint in a marker of kind kOperandsMarker, at its last step, as JSON.
std::string scan_json(const PrecisionScan& scan);
std::optional<PrecisionScan> scan_in(const std::string& json);  // nullopt if the text is not a scan

}  // namespace moescope
