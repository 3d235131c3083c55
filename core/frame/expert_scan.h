// What a model loses without each of its experts, and without several at once: measured in
// core/checkpoints/ablation/expert_removal.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/frame/figure_of_pieces.h"
#include "core/frame/frame.h"

namespace moescope {

struct ExpertCost {
  int layer = 0, expert = 0;
  double load = 0;      // times the fair share
  double saliency = 0;  // mean over its tokens of mixing weight times length of its output; 0: it has no token
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

// A recording keeps the scan of a checkpoint in a marker of this kind, at its last step, as JSON.
inline constexpr const char* kExpertsMarker = "experts";
std::string scan_json(const ExpertScan& scan);
std::optional<ExpertScan> expert_scan_in(const std::string& json);  // nullopt: it is none

}  // namespace moescope
