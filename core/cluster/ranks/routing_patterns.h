// Generates the chosen experts of T tokens by a rule, for questions about clusters that no run on this machine can
// answer.
//
// Legend: T tokens, K top_k, E experts. All functions depend on their arguments alone, random ones on the seed.
#pragma once

#include <cstdint>
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

}  // namespace moescope
