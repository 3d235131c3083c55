// Measures which experts a model could do without, by a pass without each expert, by REAP's saliency, and by passes
// without several experts.
//
// The tokens of a removed expert choose among the other experts, with the mixing weights that the model gives them;
// nothing is trained afterwards. Saliency is S_j = mean over the tokens that chose j of g_j |f_j|, where g is the
// mixing weight and f the expert's output (REAP, arXiv:2510.13999). Intervals are Student's over pieces of text.
//
// Pruning removes an eighth, a quarter, three eighths and half of the experts of every layer, as far as top-k allows:
// those with the smallest divergence, those with the smallest saliency, and five random choices. With several pieces
// the experts are ranked on every second piece and the loss is measured on the other pieces, so that no choice is
// judged by the text on which it was made.
#pragma once

#include <functional>

#include "core/checkpoints/ablation/predictions.h"
#include "core/frame/expert_scan.h"

namespace moescope {

// `progress` gets the number of finished passes and of all passes; if it returns false, the scan stops and its result
// is empty. Throws std::runtime_error as CheckpointModel::forward, if no text has two tokens, if no layer has experts,
// or if every token needs all experts.
ExpertScan remove_each_expert(CheckpointModel& model, const std::vector<LabelledText>& texts,
                              const ComparedTexts& which, const std::function<bool(int done, int total)>& progress);

}  // namespace moescope
