// What a number format does to a model: its texts again, with one operand rounded that stays in FP32 otherwise, for
// each operand of each class of weights in each layer; and all at once.
//
// Against the same pass in FP32: the change of the loss and the Kullback-Leibler divergence KL(FP32 || rounded) of the
// next tokens, in nats per token, and the share of tokens whose set of experts changes, mean over layers. The spread is
// over pieces of text, so it says how sure a figure is for texts like these; the rounding itself is deterministic.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/labelled_texts.h"
#include "core/numerics/recipes.h"

namespace moescope {

struct FigureOfPieces {
  double mean = 0;
  double interval = 0;  // 95 %, to both sides, of the mean over pieces; NaN: there is one piece
};

struct PrecisionTwin {
  int layer = 0;  // -1: the head, or all layers
  GemmClass gemm_class = GemmClass::experts;
  OperandRole operand = OperandRole::x;
  bool all = false;  // every operand
  FigureOfPieces loss_change = {}, divergence = {}, flips = {};
};
std::string twin_name(const PrecisionTwin& twin);  // "layer 2, experts, x"; "all operands"

struct TwinTexts {
  Index length = 512;
  int pieces = 8;  // at most, in turns of the texts
};

// The largest divergence first, all operands before them. `progress` gets the passes done and their number.
std::vector<PrecisionTwin> compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                             const TwinTexts& which, Recipe recipe,
                                             const std::function<void(int done, int of)>& progress);

}  // namespace moescope
