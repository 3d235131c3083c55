// Measures the effect of rounding one operand alone on a training step, for one operand after the other. Weights and
// batch are always the same, and everything is in FP32 except one operand of one GEMM of one class in one layer. The
// passes are deterministic, so no effect is due to chance.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/config/operand_recipes.h"
#include "core/frame/model_scans.h"
#include "core/model/text/dataset.h"

namespace moescope {

template <class T>
class Learner;

// Returns the operands to round, each of one layer and GEMM: with `recipe` every operand of every class, else those
// that [precision] rounds. Throws std::invalid_argument if precision.override_* is set without a recipe, or if the
// recipe does not fit the model.
std::vector<OperandRecipe> scanned_operands(const RunConfig& config, std::optional<Recipe> recipe);

// Changes only the gradients of the learner. Takes a forward and a backward pass for each operand, and two more.
// `progress` is called with the passes done and their total number, and returns false to cancel; the result is then
// nullopt. Throws like scanned_operands().
std::optional<OperandScan> scan_operands(Learner<float>& learner, const Batch& batch, std::optional<Recipe> recipe,
                                         const std::function<bool(int done, int total)>& progress);

}  // namespace moescope
