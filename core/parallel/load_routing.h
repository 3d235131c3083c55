// A routing with the load of a router that was seen, for as many experts and tokens as a cluster has.
//
// A router here has 8 to 64 experts, the model that one asks about 256. What is kept of it is how unequal its load is
// (the sorted u_e = n_e / mean n); who is chosen together with whom is not: choices are as independent as these loads
// allow. Legend: T tokens, K top_k, E experts. Functions of their arguments alone.
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
// a heavier one cannot take goes to the others). With `limited_groups` > 0 a token first draws so many of `n_groups`
// groups of neighbouring experts, in proportion to their load, and stays inside. Throws std::runtime_error: groups that
// do not divide E, too few experts for K.
std::vector<std::int32_t> route_by_load(std::span<const double> load_E, std::int64_t tokens, int top_k,
                                        int n_groups = 0, int limited_groups = 0, std::int64_t seed = 1);

}  // namespace moescope
