#include "core/checkpoints/tensor_names.h"

namespace moescope {
namespace {

using Layout = ExpertNames::Layout;

constexpr ExpertNames kEach = {Layout::each, "mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj",
                               "mlp.experts.{}.down_proj"};
constexpr ExpertNames kStacked = {Layout::stacked, "mlp.experts.gate_up_proj", nullptr, "mlp.experts.down_proj"};
constexpr ExpertNames kMixtral = {Layout::each, "block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3",
                                  "block_sparse_moe.experts.{}.w2"};
constexpr ExpertNames kGptOss = {Layout::stacked_across, "mlp.experts.gate_up_proj", nullptr, "mlp.experts.down_proj"};
constexpr ExpertNames kGranite = {Layout::stacked, "block_sparse_moe.input_linear.weight", nullptr,
                                  "block_sparse_moe.output_linear.weight"};

// Rows in the order of Architecture.
constexpr LayerNames kLayers[] = {
    {"mlp.gate", nullptr, {&kEach, &kStacked}, "mlp.shared_experts", nullptr},
    {"mlp.gate", "mlp.gate.e_score_correction_bias", {&kEach, &kStacked}, "mlp.shared_experts", nullptr},
    {"mlp.gate", nullptr, {&kEach, &kStacked}, nullptr, nullptr},
    {"mlp.gate", nullptr, {&kEach, &kStacked}, "mlp.shared_expert", "mlp.shared_expert_gate"},
    {"mlp.gate", nullptr, {&kEach, &kStacked}, nullptr, nullptr},
    {"block_sparse_moe.gate", nullptr, {&kMixtral, nullptr}, nullptr, nullptr},
    {"mlp.router", nullptr, {&kGptOss, nullptr}, nullptr, nullptr},
    {"block_sparse_moe.router.layer", nullptr, {&kGranite, nullptr}, nullptr, nullptr},
};
static_assert(std::size(kLayers) == kNumArchitectures);

}  // namespace

const LayerNames& layer_names(Architecture architecture) {
  return kLayers[static_cast<int>(architecture)];
}

}  // namespace moescope
