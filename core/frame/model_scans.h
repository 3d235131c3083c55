// Measurements of a model by core/checkpoints/ablation/scans.h: the effect of a number format on its predictions,
// operand by operand; the cost of removing experts; the similarity of experts. And by core/training/operand_scan.h: the
// effects of rounding single operands on a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/numerics/gemm_operand.h"
#include "core/numerics/recipes.h"
#include "core/numerics/statistics.h"

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

struct ExpertCost {
  int layer = 0, expert = 0;
  double load = 0;      // divided by the fair share
  double saliency = 0;  // mean over its tokens of mixing weight times norm of its output; 0 without a token
  // Change of the loss and divergence of the predictions of the model without this expert, against the whole model,
  // nats per token.
  FigureOfPieces loss_change = {}, divergence = {};
  std::vector<FigureOfPieces> loss_by_domain = {};  // change of the loss, [ExpertScan::domains]; NaN: no such piece
};

// Changes of the loss without some experts of every MoE layer, nats per token, for three choices of the removed
// experts.
struct PrunedModel {
  int removed = 0;  // experts of each MoE layer
  // Without the experts of the smallest divergence, and of the smallest saliency; intervals over pieces.
  FigureOfPieces by_divergence = {}, by_saliency = {};
  FigureOfPieces random = {};  // mean and interval over several random choices
};

struct ExpertScan {
  int pieces = 0;
  double loss = 0;                        // loss of the whole model, nats per token, mean over pieces
  std::vector<std::string> domains = {};  // domains of the pieces
  std::vector<ExpertCost> experts = {};   // the smallest divergence first
  std::vector<PrunedModel> pruning = {};  // by rising `removed`

  const ExpertCost* find(int layer, int expert) const;  // nullptr: there is no such expert
};

// Mean cosine of the outputs of two experts for the same token, for every pair of experts of a layer; interval over
// pieces.
class LayerSimilarity {
 public:
  LayerSimilarity(int layer, int experts);  // all 0, and 1 on the diagonal
  int layer() const { return layer_; }
  int experts() const { return experts_; }
  const FigureOfPieces& cosine(int i, int j) const { return cosine_EE_[at(i, j)]; }  // of(i, j) is of(j, i)
  void set(int i, int j, const FigureOfPieces& cosine) { cosine_EE_[at(i, j)] = cosine_EE_[at(j, i)] = cosine; }
  int most_similar(int expert) const;  // -1 if the layer has no other expert

 private:
  std::size_t at(int i, int j) const { return i * experts_ + j; }
  int layer_, experts_;
  std::vector<FigureOfPieces> cosine_EE_;
};

struct ExpertSimilarity {
  int pieces = 0;
  std::vector<LayerSimilarity> layers = {};

  const LayerSimilarity* find(int layer) const;  // nullptr: there is no such layer
};

// A recording keeps these measurements in markers, as JSON: those of a checkpoint at its last step, those of a run at
// the step whose weights were measured. Cosines are rounded to six decimals.
std::string scan_json(const ExpertScan& scan);
std::string similarity_json(const ExpertSimilarity& similarity);
std::optional<ExpertScan> expert_scan_in(const std::string& json);  // nullopt if the text is not a scan
std::optional<ExpertSimilarity> similarity_in(const std::string& json);

// The effect on a training step of rounding a single operand, for each operand.
// An operand of one GEMM, of all weights of one class in one layer.
struct OperandEffect {
  int layer = 0;  // -1 for the head
  GemmClass gemm_class = GemmClass::experts;
  OperandRole operand = OperandRole::x;
  Direction gemm = Direction::forward;
  std::string recipe;         // recipe that rounded it
  double gradient_error = 0;  // |g - g0| / |g0| over all weights' gradients, g0 in FP32
  double loss_change = 0;     // change of the batch's cross-entropy against FP32, nats per token; 0 for dgrad and wgrad
  double share = 0;           // share of the sum of all gradient_error^2; 0 if no operand has an error
};

struct OperandScan {
  std::vector<OperandEffect> effects;  // by gradient error, largest first
  double loss = 0;                     // loss in FP32, nats per token
  double all_gradient_error = 0;       // gradient error with all of these operands rounded
  double all_loss_change = 0;
};

}  // namespace moescope
