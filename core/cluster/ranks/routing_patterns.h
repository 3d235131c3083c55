// Generates the chosen experts of T tokens, by a rule or with the load of a recorded router, for questions about
// clusters that no run on this machine can answer.
//
// Legend: T tokens, K top_k, E experts. All functions depend on their arguments alone, random ones on the seed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

enum class RoutingRule {
  round_robin,  // token t takes experts (t K .. t K + K - 1) mod E: torchtitan's forced load balance
  uniform,      // K distinct experts, all equally likely
  grouped,      // `limited_groups` of `n_groups` groups at random, then K distinct experts at random inside them
  zipf,  // expert of popularity rank i drawn with weight (i + 1)^-s, K distinct; the order of experts is shuffled
};

struct RoutingPattern {
  RoutingRule rule = RoutingRule::uniform;
  int n_groups = 8, limited_groups = 4;
  double zipf_exponent = 1;
};

// Parses "forced" or "round_robin", "uniform", "grouped", "grouped:L", "grouped:L/G" (L of G groups), "zipf:S". Numbers
// of groups that the text omits are those of `otherwise`. Throws std::runtime_error that names the allowed values.
RoutingPattern parse_routing_pattern(std::string_view text, const RoutingPattern& otherwise = {});
std::string routing_pattern_name(const RoutingPattern& pattern);  // parses to an equal pattern

// Returns [T, K] token-major with K distinct experts per token. Throws std::runtime_error if the pattern is impossible:
// K > E, groups that do not divide E, too few experts in the limited groups.
std::vector<std::int32_t> route_by_pattern(const RoutingPattern& pattern, std::int64_t tokens, int top_k, int n_experts,
                                           std::int64_t seed = 1);

// A router of this program has 8 to 64 experts, that of a model on a cluster 256. The imbalance of its load is kept
// (the sorted u_e = n_e / mean n). Which experts are chosen together is not kept: choices are as independent as these
// loads allow. Returns u of `n_experts` experts with mean 1: the sorted u of `tokens_per_expert` as a quantile
// function, read at (i + 1/2) / n_experts with linear interpolation, in a random order. All are equal if nothing was
// counted.
std::vector<double> stretch_load(std::span<const std::uint32_t> tokens_per_expert, int n_experts,
                                 std::int64_t seed = 1);
// Returns u in the order of `tokens_per_expert` instead: expert i has the load of the part from i / n_experts to
// (i + 1) / n_experts of its experts. Ranks that hold all experts in order then keep their loads.
std::vector<double> load_in_order(std::span<const std::uint32_t> tokens_per_expert, int n_experts);

// Returns [T, K] token-major with K distinct experts per token: expert e for a share K u_e / E of the tokens, at most
// all of them (the excess of a heavier expert goes to the others). With `limited_groups` > 0 a token first draws that
// many of `n_groups` groups of neighbouring experts, in proportion to their load, and chooses within them. Throws
// std::runtime_error if groups do not divide E, or too few experts remain for K.
std::vector<std::int32_t> route_by_load(std::span<const double> load_E, std::int64_t tokens, int top_k,
                                        int n_groups = 0, int limited_groups = 0, std::int64_t seed = 1);

}  // namespace moescope
