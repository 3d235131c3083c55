// What a model loses without each of its experts: measured in core/checkpoints/ablation/expert_removal.h.
#pragma once

#include <vector>

#include "core/frame/figure_of_pieces.h"

namespace moescope {

struct ExpertCost {
  int layer = 0, expert = 0;
  double load = 0;      // times the fair share
  double saliency = 0;  // mean over its tokens of mixing weight times length of its output; 0: it has no token
  // Without it, against the whole model: change of the loss and divergence of the predictions, nats per token.
  FigureOfPieces loss_change = {}, divergence = {};
};

struct ExpertScan {
  int pieces = 0;
  double loss = 0;                  // of the whole model, nats per token, mean over pieces
  std::vector<ExpertCost> experts;  // the smallest divergence first
};

}  // namespace moescope
