// The loads by which expert_bias moves when a framework keeps them in BF16 (router.count_format).
//
// Megatron-LM, pull request 7081: the counts were a buffer that was converted with the model, so that ranks and
// microbatches were added in BF16. Here each sequence is a part that is counted exactly and then added, in order.
// Legend: E experts, K top_k.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/layers/batch_part.h"

namespace moescope {

// [E] of the whole batch; sent_TK: the experts of the tokens here, -1: none. Collective.
std::vector<float> bf16_counts(const BatchPart& part, std::span<const std::int32_t> sent, int n_experts);

// The parts' counts, added one after the other in BF16: [parts, E] -> [E].
std::vector<float> sum_in_bf16(std::span<const std::uint32_t> counts, int n_experts);

// -1, 0 or 1 for each expert: where its bias moves. The mean of `loads` is summed up exactly, rounded to BF16, divided
// and rounded again (torch.sum and its quotient in BF16). Killed experts count for nothing and get 0.
std::vector<double> directions_in_bf16(std::span<const float> loads, const std::uint8_t* killed = nullptr);

}  // namespace moescope
