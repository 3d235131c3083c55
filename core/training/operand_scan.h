// What rounding one operand alone does to a training step: the same weights and the same batch, everything in FP32 but
// one operand of one GEMM of one class of one layer, one after the other. Deterministic, so nothing here is chance.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/config/operand_recipes.h"
#include "core/data/dataset.h"
#include "core/model/learner.h"

namespace moescope {

struct OperandEffect {
  int layer = 0;              // -1: the head
  OperandRecipe rounded;      // with its GEMM
  double gradient_error = 0;  // |g - g0| / |g0|: of all weights' gradients, g0 in FP32
  double loss_change = 0;     // cross-entropy of the batch, nats per token, against FP32; 0 of dgrad and wgrad
  double share = 0;           // of the sum of all gradient_error^2; 0 where nothing has an error
};

struct OperandScan {
  std::vector<OperandEffect> effects;  // the largest gradient error first
  double loss = 0;                     // in FP32, nats per token
  double all_gradient_error = 0;       // all of these operands rounded at once
  double all_loss_change = 0;
};

// Operands that the config rounds: by `recipe` each of every class, or by what [precision] says. Throws
// std::invalid_argument: precision.override_* is set without a recipe, a recipe that does not fit the model.
std::vector<OperandEffect> scanned_operands(const RunConfig& config, std::optional<Recipe> recipe);

// Changes nothing of the learner but its gradients. Takes a forward and a backward pass for each operand and two more;
// `progress` gets the passes done and their number, and returns false to cancel, which returns nullopt. Throws as
// scanned_operands().
std::optional<OperandScan> scan_operands(Learner<float>& learner, const Batch& batch, std::optional<Recipe> recipe,
                                         const std::function<bool(int done, int of)>& progress);

// "layer 2, experts, dY of wgrad"; "head, x of forward".
std::string effect_name(const OperandEffect& effect);

}  // namespace moescope
