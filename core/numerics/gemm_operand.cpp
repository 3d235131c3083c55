#include "core/numerics/gemm_operand.h"

#include <array>
#include <cstddef>

namespace moescope {
namespace {

struct GemmInfo {
  GemmClass gemm_class;
  const char* name;
};

constexpr std::array<GemmInfo, kNumGemms> kGemms = {{
    {GemmClass::attention, "wq"},      {GemmClass::attention, "wq_a"},    {GemmClass::attention, "wq_b"},
    {GemmClass::attention, "wkv_a"},   {GemmClass::attention, "wkv_b"},   {GemmClass::attention, "wo"},
    {GemmClass::dense_ffn, "w1"},      {GemmClass::dense_ffn, "w3"},      {GemmClass::dense_ffn, "w2"},
    {GemmClass::shared_experts, "w1"}, {GemmClass::shared_experts, "w3"}, {GemmClass::shared_experts, "w2"},
    {GemmClass::router_gate, "gate"},  {GemmClass::head, "output"},       {GemmClass::experts, "w1"},
    {GemmClass::experts, "w3"},        {GemmClass::experts, "w2"},        {GemmClass::payload, "dispatch"},
    {GemmClass::payload, "combine"},
}};

const GemmInfo& info_of(Gemm gemm) {
  return kGemms[static_cast<std::size_t>(gemm)];
}

}  // namespace

GemmClass gemm_class_of(Gemm gemm) {
  return info_of(gemm).gemm_class;
}

const char* gemm_name(Gemm gemm) {
  return info_of(gemm).name;
}

std::optional<Gemm> find_gemm(GemmClass gemm_class, std::string_view name) {
  for (int i = 0; i < kNumGemms; ++i) {
    const auto gemm = static_cast<Gemm>(i);
    if (gemm_class_of(gemm) == gemm_class && gemm_name(gemm) == name) return gemm;
  }
  return std::nullopt;
}

}  // namespace moescope
