// Dropping of tokens beyond the capacity of an expert: Megatron-LM apply_router_token_dropping, without padding rows.
//
// Legend: T tokens that count together, E experts, K top_k.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/config/run_config.h"
#include "core/numerics/matrix.h"

namespace moescope {

// Number of rows that an expert takes: ceil(T K / E * factor). At T or more, nothing is dropped.
int expert_capacity(std::size_t tokens, int top_k, int n_experts, double factor);

// kept_TK: 1 for `capacity` copies of each expert, by policy `probs` those with the largest mixing weights, the first
// token among equals, by `position` those of the first tokens; 0 for the others, whose weight in mix_TK becomes 0. The
// rest is not normalised anew, and a token does not get another expert. Tokens that are padding (padding_T) count for
// nothing and are kept.
template <class T>
void drop_beyond_capacity(TokenDrop policy, ConstMatrix<std::int32_t> ids_TK, int n_experts, int capacity, T* mix,
                          std::uint8_t* kept, const std::uint8_t* padding = nullptr);

}  // namespace moescope
