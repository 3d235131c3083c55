// Generates a routing with the load of a recorded router, for as many experts and tokens as a cluster has.
//
// A router of this program has 8 to 64 experts, that of a model on a cluster 256. The imbalance of the load is kept
// (the sorted u_e = n_e / mean n). Which experts are chosen together is not kept: choices are as independent as these
// loads allow.
// Legend: T tokens, K top_k, E experts. The functions depend on their arguments alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

// Returns u of `n_experts` experts with mean 1: the sorted u of `tokens_per_expert` as a quantile function, read at (i
// + 1/2) / n_experts with linear interpolation, in a random order. All are equal if nothing was counted.
std::vector<double> stretch_load(std::span<const std::uint32_t> tokens_per_expert, int n_experts,
                                 std::int64_t seed = 1);

// Returns [T, K] token-major with K distinct experts per token: expert e for a share K u_e / E of the tokens, at most
// all of them (the excess of a heavier expert goes to the others). With `limited_groups` > 0 a token first draws that
// many of `n_groups` groups of neighbouring experts, in proportion to their load, and chooses within them. Throws
// std::runtime_error if groups do not divide E, or too few experts remain for K.
std::vector<std::int32_t> route_by_load(std::span<const double> load_E, std::int64_t tokens, int top_k,
                                        int n_groups = 0, int limited_groups = 0, std::int64_t seed = 1);

}  // namespace moescope
