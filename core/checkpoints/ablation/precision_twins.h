// Measures the effect of number formats on a model. Each twin is a pass over the same texts with some operands rounded:
// one operand of one class of weights in one layer; one operand of one class in all layers; or all operands. Further
// passes round what each published recipe rounds in its forward pass, except the gate, which stays in FP32.
//
// Each twin is compared with the pass in FP32: the change of the loss and the Kullback-Leibler divergence
// KL(FP32 || rounded) of the next tokens, in nats per token, and the share of tokens whose set of experts changes, mean
// over layers. Intervals are Student's over pieces of text, so they show how certain a figure is for similar texts; the
// rounding itself is deterministic.
#pragma once

#include <functional>
#include <vector>

#include "core/checkpoints/ablation/predictions.h"
#include "core/frame/precision_scan.h"

namespace moescope {

// `progress` gets the number of finished passes and of all passes; if it returns false, the scan stops and its result
// has no twins. Throws std::runtime_error as CheckpointModel::forward, or if no text has two tokens.
PrecisionScan compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                const ComparedTexts& which, Recipe recipe,
                                const std::function<bool(int done, int total)>& progress);

}  // namespace moescope
