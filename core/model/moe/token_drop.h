// Dropping of tokens beyond the capacity of an expert, as in Megatron-LM's apply_router_token_dropping, but without
// padding rows.
//
// Legend: T tokens of a microbatch, E experts, K top_k.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/config/run_config.h"
#include "core/numerics/matrix.h"

namespace moescope {

// Returns the number of rows that an expert takes: ceil(T K / E * factor). If it is T or more, nothing is dropped.
int expert_capacity(std::size_t tokens, int top_k, int n_experts, double factor);

// Keeps `capacity` copies of each expert: with the policy `probs` those with the largest mixing weights (of equal ones,
// those of the first tokens), with `position` those of the first tokens. Writes 1 for each kept copy and 0 for each
// other copy to kept_TK, and sets the weight of the others in mix_TK to 0. The remaining weights of a token are not
// normalised again, and a token does not get another expert. Copies of padding (padding_T) are kept and not counted.
template <class T>
void drop_beyond_capacity(TokenDrop policy, ConstMatrix<std::int32_t> ids_TK, int n_experts, int capacity, T* mix,
                          std::uint8_t* is_kept, const std::uint8_t* padding = nullptr);

}  // namespace moescope
