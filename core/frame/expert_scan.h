// What a model loses without each of its experts, and without several at once: measured in
// core/checkpoints/ablation/expert_removal.h. How similar its experts are: core/checkpoints/ablation/similar_experts.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/frame/figure_of_pieces.h"
#include "core/frame/frame.h"

namespace moescope {

struct ExpertCost {
  int layer = 0, expert = 0;
  double load = 0;      // times the fair share
  double saliency = 0;  // mean over its tokens of mixing weight times norm of its output; 0: it has no token
  // Without it, against the whole model: change of the loss and divergence of the predictions, nats per token.
  FigureOfPieces loss_change = {}, divergence = {};
  std::vector<FigureOfPieces> loss_by_domain = {};  // [ExpertScan::domains]; NaN: no piece is of the domain
};

// The change of the loss, nats per token, without some experts of every layer, with experts chosen in three ways.
struct PrunedModel {
  int removed = 0;  // experts of each MoE layer
  // Those with the smallest divergence, and with the smallest saliency; intervals over pieces.
  FigureOfPieces by_divergence = {}, by_saliency = {};
  FigureOfPieces random = {};  // mean over random choices, interval over them
};

struct ExpertScan {
  int pieces = 0;
  double loss = 0;                        // of the whole model, nats per token, mean over pieces
  std::vector<std::string> domains = {};  // of the pieces
  std::vector<ExpertCost> experts = {};   // the smallest divergence first
  std::vector<PrunedModel> pruning = {};  // by rising `removed`

  const ExpertCost* find(int layer, int expert) const;  // nullptr: there is no such expert
};

// Mean cosine of the outputs of each two experts of a layer for the same token, interval over pieces.
class LayerSimilarity {
 public:
  LayerSimilarity(int layer, int experts);  // all 0, and 1 on the diagonal
  int layer() const { return layer_; }
  int experts() const { return experts_; }
  const FigureOfPieces& of(int i, int j) const { return cosine_EE_[at(i, j)]; }  // of(i, j) is of(j, i)
  void set(int i, int j, const FigureOfPieces& cosine) { cosine_EE_[at(i, j)] = cosine_EE_[at(j, i)] = cosine; }
  int most_similar(int expert) const;  // -1: it is the only one

 private:
  std::size_t at(int i, int j) const { return static_cast<std::size_t>(i * experts_ + j); }
  int layer_, experts_;
  std::vector<FigureOfPieces> cosine_EE_;
};

struct ExpertSimilarity {
  int pieces = 0;
  std::vector<LayerSimilarity> layers = {};

  const LayerSimilarity* find(int layer) const;  // nullptr: there is no such layer
};

// A recording keeps what was measured in markers, as JSON: of a checkpoint at its last step, of a run at the step whose
// weights were measured. Cosines are rounded to six decimals.
std::string scan_json(const ExpertScan& scan);
std::string similarity_json(const ExpertSimilarity& similarity);
std::optional<ExpertScan> expert_scan_in(const std::string& json);  // nullopt: it is none
std::optional<ExpertSimilarity> similarity_in(const std::string& json);

}  // namespace moescope
