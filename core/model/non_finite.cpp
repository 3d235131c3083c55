#include "core/model/non_finite.h"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace moescope {
namespace {

using Found = std::optional<NonFinitePlace>;

Found in_rows(const Matrix<float>& rows, const std::string& tensor, int layer, int expert = -1) {
  for (Index r = 0; r < rows.rows; ++r)
    for (Index c = 0; c < rows.cols; ++c)
      if (const float value = rows.row(r)[c]; !std::isfinite(value))
        return NonFinitePlace{layer, tensor, expert, r, c, value};
  return std::nullopt;
}

Found in_experts(const Matrix<float>& rows, const DispatchPlan& plan, const std::string& tensor, int layer) {
  for (std::size_t e = 0; e + 1 < plan.expert_offset.size(); ++e) {
    const Index first = plan.expert_offset[e], count = plan.expert_offset[e + 1] - first;
    if (Found found = in_rows(rows.row_block(first, count), tensor, layer, e)) return found;
  }
  return std::nullopt;
}

Found in_moe(const MoeActivations<float>& moe, int layer) {
  if (Found found = in_rows(moe.router.logits, "router outputs", layer)) return found;
  // With several ranks, the rows at the experts are not in the order of the plan.
  if (moe.exchange.at_experts().expert_offset.empty()) {
    if (Found found = in_experts(moe.h13, moe.plan, "w1 and w3 x", layer)) return found;
    if (Found found = in_experts(moe.a, moe.plan, "SwiGLU", layer)) return found;
  }
  if (Found found = in_experts(moe.y, moe.plan, "w2 x", layer)) return found;
  if (moe.shared.h13.data)
    if (Found found = in_rows(moe.shared.h13, "shared w1 and w3 x", layer)) return found;
  return std::nullopt;
}

// Searches the last tensor first, because the backward pass computes its gradient first.
Found in_gradients(const Parameters<float>& parameters) {
  for (const ParameterTensor& tensor : parameters.tensors() | std::views::reverse) {
    const Index cols = tensor.shape.back();
    for (std::size_t b = 0; b < tensor.blocks(); ++b) {
      const Matrix<float> block(parameters.gradients + tensor.offset + b * tensor.outer_stride,
                                static_cast<Index>(tensor.block_elements()) / cols, cols);
      const int expert = tensor.shape.size() == 3 ? static_cast<int>(b) : -1;
      if (Found found = in_rows(block, "gradient of " + tensor.name, -1, expert)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NonFinitePlace> first_non_finite(const Learner<float>& learner) {
  const Transformer<float>& model = learner.model();
  const ModelConfig& config = learner.config.model;
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (const auto& [rows, name] : model.rows_of(layer))
      if (Found found = in_rows(rows, name, layer)) return found;
    if (layer >= config.n_dense_layers)
      if (Found found = in_moe(model.moe()[layer - config.n_dense_layers], layer)) return found;
  }
  for (const auto& [rows, name] : model.rows_of_head())
    if (Found found = in_rows(rows, name, -1)) return found;
  return in_gradients(learner.parameters);
}

}  // namespace moescope
