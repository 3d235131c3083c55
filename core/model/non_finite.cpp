#include "core/model/non_finite.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <ranges>

#include "core/model/learner.h"

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
    if (Found found = in_rows(rows.row_block(first, count), tensor, layer, to_int(e))) return found;
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
      const std::span<float> block = tensor.block_in(parameters.gradients, b);
      const int expert = tensor.is_of_experts() ? to_int(b) : -1;
      if (Found found =
              in_rows({block.data(), std::ssize(block) / cols, cols}, "gradient of " + tensor.name, -1, expert))
        return found;
    }
  }
  return std::nullopt;
}

using Elements = std::vector<OperandElement>;

constexpr std::string_view kGradientOf = "gradient of ";

const char* value_text(float value) {
  if (std::isnan(value)) return "NaN";
  if (value > 0) return "infinity";
  return "-infinity";
}

// Returns the text up to `end` and removes both from `text`; if there is no `end`, returns and removes the whole text.
std::string_view take_part(std::string_view& text, std::string_view end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + end.size(), text.size()));
  return part;
}

// Returns N if `part` is "NAME N".
std::optional<Index> number_after(std::string_view name, std::string_view part) {
  if (!part.starts_with(name) || part.size() <= name.size() + 1 || part[name.size()] != ' ') return std::nullopt;
  Index number = 0;
  const char* end = part.data() + part.size();
  const auto [at, error] = std::from_chars(part.data() + name.size() + 1, end, number);
  return error == std::errc() && at == end && number >= 0 ? std::optional(number) : std::nullopt;
}

OperandElement x_of(Gemm gemm, const NonFinitePlace& at, Index column) {
  return {{at.layer, gemm, OperandRole::x, Direction::forward}, at.expert, at.row, column};
}

Elements product(Gemm gemm, const NonFinitePlace& at) {
  return {x_of(gemm, at, -1), {{at.layer, gemm, OperandRole::w, Direction::forward}, at.expert, at.column, -1}};
}

// Returns the factors of an element of the products with w1 and w3, which are side by side: w3's columns begin at
// `width`.
Elements product_13(Gemm w1, Gemm w3, Index width, NonFinitePlace at) {
  if (at.column < width) return product(w1, at);
  at.column -= width;
  return product(w3, at);
}

// Returns the GEMM whose weight has this name, given without the prefix of the layer and without ".weight".
std::optional<Gemm> gemm_of(std::string_view weight) {
  constexpr std::string_view kParents[kNumGemmClasses] = {"moe.experts.", "moe.shared_experts.", "feed_forward.",
                                                          "attention.",   "moe.router.",         ""};
  for (int i = 0; i < kNumGemmClasses; ++i)
    if (weight.starts_with(kParents[i])) return find_gemm(static_cast<GemmClass>(i), weight.substr(kParents[i].size()));
  return std::nullopt;
}

// dW_OI = dY_TO^T x_TI: element (o, i) is the product of column o of dY and column i of x.
Elements gradient_operands(const NonFinitePlace& at) {
  std::string_view name = std::string_view(at.tensor).substr(kGradientOf.size());
  int layer = -1;
  if (name.starts_with("layers.")) {
    name.remove_prefix(std::string_view("layers.").size());
    const std::string_view number = take_part(name, ".");
    std::from_chars(number.data(), number.data() + number.size(), layer);
  }
  if (name.ends_with(".weight")) name.remove_suffix(std::string_view(".weight").size());
  const std::optional<Gemm> gemm = gemm_of(name);
  if (!gemm) return {};
  return {{{layer, *gemm, OperandRole::dy, Direction::wgrad}, at.expert, -1, at.row},
          {{layer, *gemm, OperandRole::x, Direction::wgrad}, at.expert, -1, at.column}};
}

// The residual stream itself is no operand of a GEMM. Before attention, returns the row of x of the first GEMM, which
// reads its norm; after attention, the factors of the product with wo, which was added to it.
Elements attention_operands(const NonFinitePlace& at, const ModelConfig& model) {
  const bool latent = model.q_lora_rank > 0;
  const Gemm first = latent ? Gemm::wq_a : Gemm::wq;
  if (at.tensor == "residual stream before attention") return {x_of(first, at, -1)};
  if (at.tensor == "attention_norm") return {x_of(first, at, at.column)};
  if (at.tensor == "wq x") return product(latent ? Gemm::wq_b : Gemm::wq, at);
  if (at.tensor == "wkv_a x") return product(Gemm::wkv_a, at);
  if (at.tensor == "wkv_b x") return product(Gemm::wkv_b, at);
  if (at.tensor == "attention") return {x_of(Gemm::wo, at, at.column)};
  if (at.tensor == "residual stream after attention") return product(Gemm::wo, at);
  return {};
}

Elements feed_forward_operands(const NonFinitePlace& at, const ModelConfig& model) {
  const bool dense = at.layer < model.n_dense_layers;
  if (at.tensor == "ffn_norm") return {x_of(dense ? Gemm::dense_w1 : Gemm::gate, at, at.column)};
  if (at.tensor == "router outputs") return product(Gemm::gate, at);
  if (at.tensor == "w1 and w3 x")
    return dense ? product_13(Gemm::dense_w1, Gemm::dense_w3, model.dense_inter, at)
                 : product_13(Gemm::expert_w1, Gemm::expert_w3, model.moe_inter, at);
  if (at.tensor == "shared w1 and w3 x")
    return product_13(Gemm::shared_w1, Gemm::shared_w3, Index{model.n_shared} * model.moe_inter, at);
  if (at.tensor == "SwiGLU") return {x_of(dense ? Gemm::dense_w2 : Gemm::expert_w2, at, at.column)};
  if (at.tensor == "w2 x") return product(Gemm::expert_w2, at);
  return {};
}

Elements head_operands(const NonFinitePlace& at) {
  if (at.tensor == "residual stream before the head") return {x_of(Gemm::output, at, -1)};
  if (at.tensor == "norm of the head") return {x_of(Gemm::output, at, at.column)};
  if (at.tensor == "output x") return product(Gemm::output, at);
  return {};
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

std::string NonFinitePlace::text() const {
  std::string text = layer >= 0 ? fmt::format("layer {}, ", layer) : "";
  text += tensor;
  if (expert >= 0) text += fmt::format(", expert {}", expert);
  return fmt::format("{}, row {}, column {}: {}", text, row, column, value_text(value));
}

std::optional<NonFinitePlace> non_finite_in(std::string_view text) {
  NonFinitePlace at;
  std::string_view place = take_part(text, ": ");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::array values = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
  const auto value = std::ranges::find_if(values, [&](float candidate) { return text == value_text(candidate); });
  if (value == values.end()) return std::nullopt;
  at.value = *value;
  std::string_view part = take_part(place, ", ");
  if (const auto layer = number_after("layer", part)) {
    at.layer = to_int(*layer);
    part = take_part(place, ", ");
  }
  at.tensor = part;
  part = take_part(place, ", ");
  if (const auto expert = number_after("expert", part)) {
    at.expert = to_int(*expert);
    part = take_part(place, ", ");
  }
  const auto row = number_after("row", part), column = number_after("column", place);
  if (at.tensor.empty() || !row || !column) return std::nullopt;
  at.row = *row;
  at.column = *column;
  return at;
}

std::vector<OperandElement> operands_at(const NonFinitePlace& at, const ModelConfig& model) {
  if (at.tensor.starts_with(kGradientOf)) return gradient_operands(at);
  if (at.layer < 0) return head_operands(at);
  Elements found = attention_operands(at, model);
  return found.empty() ? feed_forward_operands(at, model) : found;
}

}  // namespace moescope
