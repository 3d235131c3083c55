// What a number format does to a model: its texts again, with one operand rounded that stays in FP32 otherwise, for
// each operand of each class of weights in each layer; then of each class in all layers together; and all at once. Last
// with what each published recipe rounds in its forward pass, the gate aside, which stays in FP32.
//
// Against the same pass in FP32: the change of the loss and the Kullback-Leibler divergence KL(FP32 || rounded) of the
// next tokens, in nats per token, and the share of tokens whose set of experts changes, mean over layers. Intervals are
// Student's over pieces of text, so they say how sure a figure is for texts like these; the rounding itself is
// deterministic.
#pragma once

#include <functional>
#include <vector>

#include "core/checkpoints/ablation/predictions.h"
#include "core/frame/precision_scan.h"

namespace moescope {

// `progress` gets the passes done and their number, and returns false to stop, which leaves no twins. Throws
// std::runtime_error as CheckpointModel::forward, or if no text has two tokens.
PrecisionScan compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                const ComparedTexts& which, Recipe recipe,
                                const std::function<bool(int done, int of)>& progress);

}  // namespace moescope
