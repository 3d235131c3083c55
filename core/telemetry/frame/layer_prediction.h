// How well the experts that a token got in one MoE layer tell which it gets in the next.
//
// Legend: T tokens, K top_k, E experts; N_ij tokens with i in the layer before and j in this one, N_i tokens with i.
// Every second token teaches N; of the others, 2,048 at most and evenly spread, the K experts j of the largest
//   sum over the token's i of N_ij / N_i
// are guessed, the lower number where two are equal. What inference engines that fetch experts ahead build on.
#pragma once

#include <cstdint>
#include <span>

namespace moescope {

// Mean over the asked tokens of |guessed and chosen| / K. kNoValue: fewer than two tokens, tables of another size, or
// more than 4,096 experts.
float predicted_share(std::span<const std::uint16_t> before_TK, std::span<const std::uint16_t> chosen_TK, int top_k,
                      int n_experts);

}  // namespace moescope
