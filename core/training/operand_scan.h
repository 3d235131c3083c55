// What rounding one operand alone does to a training step: the same weights and the same batch, everything in FP32 but
// one operand of one GEMM of one class of one layer, one after the other. Deterministic, so nothing here is chance.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/config/operand_recipes.h"
#include "core/data/dataset.h"
#include "core/frame/operand_effects.h"

namespace moescope {

template <class T>
class Learner;

// Operands that the config rounds, each of one layer and GEMM: by `recipe` each of every class, or by what [precision]
// says. Throws
// std::invalid_argument: precision.override_* is set without a recipe, a recipe that does not fit the model.
std::vector<OperandRecipe> scanned_operands(const RunConfig& config, std::optional<Recipe> recipe);

// Changes nothing of the learner but its gradients. Takes a forward and a backward pass for each operand and two more;
// `progress` gets the passes done and their number, and returns false to cancel, which returns nullopt. Throws as
// scanned_operands().
std::optional<OperandScan> scan_operands(Learner<float>& learner, const Batch& batch, std::optional<Recipe> recipe,
                                         const std::function<bool(int done, int of)>& progress);

}  // namespace moescope
