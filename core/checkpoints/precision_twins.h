// What a number format does to a model: its texts again, with one operand rounded that stays in FP32 otherwise, for
// each operand of each class of weights in each layer; then of each class in all layers together; and all at once.
//
// Against the same pass in FP32: the change of the loss and the Kullback-Leibler divergence KL(FP32 || rounded) of the
// next tokens, in nats per token, and the share of tokens whose set of experts changes, mean over layers. Intervals are
// Student's over pieces of text, so they say how sure a figure is for texts like these; the rounding itself is
// deterministic.
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
  enum class Scope : std::uint8_t { all_operands, all_layers, one_layer };
  Scope scope = Scope::one_layer;  // the head counts as a layer
  int layer = -1;                  // of one_layer; -1: the head
  GemmClass gemm_class = GemmClass::experts;
  OperandRole operand = OperandRole::x;
  FigureOfPieces loss_change = {}, divergence = {}, flips = {};
  // Divergence of the costliest twin of the same scope minus this one's, over the same pieces; an interval that holds
  // 0: the two are not told apart.
  FigureOfPieces behind = {};
};
std::string twin_name(const PrecisionTwin& twin);  // "layer 2, experts, x"; "all layers, experts, x"; "all operands"

struct TwinTexts {
  Index length = 512;
  int pieces = 8;  // at most, in turns of the texts
};

struct PrecisionScan {
  Recipe recipe = Recipe::fp32;
  int pieces = 0;
  double loss = 0;                   // in FP32, nats per token, mean over pieces
  std::vector<PrecisionTwin> twins;  // all operands first, then the largest divergence first
  // The costliest operand of one layer; nullptr: there is none.
  const PrecisionTwin* costliest() const;
};

// `progress` gets the passes done and their number, and returns false to stop, which leaves no twins. Throws
// std::runtime_error as CheckpointModel::forward, or if no text has two tokens.
PrecisionScan compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts, const TwinTexts& which,
                                Recipe recipe, const std::function<bool(int done, int of)>& progress);

}  // namespace moescope
