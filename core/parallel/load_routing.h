// A routing with the load of a recorded router, for as many experts and tokens as a cluster has.
//
// A router here has 8 to 64 experts, the model in question 256. The imbalance of the load is kept (the sorted u_e = n_e
// / mean n); which experts are chosen together is not: choices are as independent as these loads allow. Legend: T
// tokens, K top_k, E experts. Functions of their arguments alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

// u of `n_experts` experts, mean 1: the sorted u of `tokens_per_expert` as a quantile function, read at
// (i + 1/2) / n_experts with straight lines between, in a random order. All equal when nothing was counted.
std::vector<double> stretch_load(std::span<const std::uint32_t> tokens_per_expert, int n_experts,
                                 std::int64_t seed = 1);

// [T, K] token-major, the K of a token distinct: expert e in a share K u_e / E of the tokens, at most all of them (what
// a heavier one cannot take goes to the others). With `limited_groups` > 0 a token first draws that many of `n_groups`
// groups of neighbouring experts, in proportion to their load, and chooses within them. Throws std::runtime_error:
// groups that do not divide E, too few experts for K.
std::vector<std::int32_t> route_by_load(std::span<const double> load_E, std::int64_t tokens, int top_k,
                                        int n_groups = 0, int limited_groups = 0, std::int64_t seed = 1);

}  // namespace moescope
