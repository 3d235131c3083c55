// Which experts a model could do without: the texts again without each expert, and REAP's saliency.
//
// Without an expert its tokens choose among the others, with the mixing weights that the model gives them; nothing is
// trained afterwards. Saliency is S_j = mean over the tokens that chose j of g_j |f_j|, g the mixing weight and f the
// expert's output (REAP, arXiv:2510.13999). Intervals are Student's over pieces of text.
#pragma once

#include <functional>

#include "core/checkpoints/ablation/predictions.h"
#include "core/frame/expert_scan.h"

namespace moescope {

// `progress` gets the passes done and their number, and returns false to stop, which leaves no experts. Throws
// std::runtime_error as CheckpointModel::forward, if no text has two tokens, or if every token needs all experts.
ExpertScan remove_each_expert(CheckpointModel& model, const std::vector<LabelledText>& texts,
                              const ComparedTexts& which, const std::function<bool(int done, int of)>& progress);

}  // namespace moescope
