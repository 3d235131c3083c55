#include "core/cluster/ranks/routing_patterns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>

#include "core/cluster/ranks/draws.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

constexpr double kMaxZipf = 8;

[[noreturn]] void refuse(std::string_view text) {
  throw std::runtime_error(
      "routing '" + std::string(text) +
      "' is not known; allowed: forced, uniform, grouped[:LIMITED[/GROUPS]] and zipf:EXPONENT (0 to 8)");
}

template <class Number>
Number parse_number(std::string_view digits, std::string_view whole) {
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) refuse(whole);
  return value;
}

// Makes the first `count` of `ids` a random sample without replacement (Fisher-Yates).
void sample(std::vector<std::int32_t>& ids, int count, RoutingDraws& draws) {
  const int size = ids.size();
  for (int k = 0; k < count; ++k) std::swap(ids[k], ids[k + draws.below(size - k)]);
}

void route_uniform(std::vector<std::int32_t>& topk_TK, int top_k, int n_experts, RoutingDraws draws) {
  std::vector<std::int32_t> ids = first_ids(n_experts);
  for (auto chosen = topk_TK.begin(); chosen != topk_TK.end(); chosen += top_k) {
    sample(ids, top_k, draws);
    std::copy_n(ids.begin(), top_k, chosen);
  }
}

void route_grouped(std::vector<std::int32_t>& topk_TK, int top_k, int n_experts, const RoutingPattern& pattern,
                   RoutingDraws draws) {
  const int size = n_experts / pattern.n_groups;
  std::vector<std::int32_t> groups = first_ids(pattern.n_groups);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(pattern.limited_groups) * size);
  for (auto chosen = topk_TK.begin(); chosen != topk_TK.end(); chosen += top_k) {
    sample(groups, pattern.limited_groups, draws);
    for (int g = 0; g < pattern.limited_groups; ++g)
      std::iota(ids.begin() + g * size, ids.begin() + (g + 1) * size, groups[g] * size);
    sample(ids, top_k, draws);
    std::copy_n(ids.begin(), top_k, chosen);
  }
}

// Draws from cumulative weights until K experts are distinct, which equals drawing without replacement. If few experts
// have nearly all the weight, this would take long. After 64 K draws the most popular experts that are not yet chosen
// fill the rest.
void route_zipf(std::vector<std::int32_t>& topk_TK, int top_k, int n_experts, double exponent, RoutingDraws draws) {
  std::vector<std::int32_t> order = first_ids(n_experts);
  sample(order, n_experts, draws);
  std::vector<double> cumulated(n_experts);
  double total = 0;
  for (int i = 0; i < n_experts; ++i) cumulated[i] = total += std::pow(i + 1.0, -exponent);
  for (auto chosen = topk_TK.begin(); chosen != topk_TK.end(); chosen += top_k) {
    int count = 0, tries = 0;
    const auto take = [&](std::int32_t expert) {
      if (std::find(chosen, chosen + count, expert) == chosen + count) chosen[count++] = expert;
    };
    while (count < top_k && tries++ < 64 * top_k) {
      const auto at = std::upper_bound(cumulated.begin(), cumulated.end() - 1, draws.uniform() * total);
      take(order[at - cumulated.begin()]);
    }
    for (const int expert : order)
      if (count < top_k) take(expert);
  }
}

void check(const RoutingPattern& pattern, std::int64_t tokens, int top_k, int n_experts) {
  const auto fail = [&](const std::string& reason) {
    throw std::runtime_error("routing " + routing_pattern_name(pattern) + ": " + reason);
  };
  if (tokens < 0 || top_k < 1 || n_experts < 1) fail("needs at least one expert and top_k of at least 1");
  if (top_k > n_experts)
    fail("top_k " + std::to_string(top_k) + " is more than the " + std::to_string(n_experts) + " experts");
  if (pattern.rule != RoutingRule::grouped) return;
  if (pattern.n_groups < 1 || n_experts % pattern.n_groups)
    fail(std::to_string(n_experts) + " experts do not divide into " + std::to_string(pattern.n_groups) + " groups");
  if (pattern.limited_groups < 1 || pattern.limited_groups > pattern.n_groups)
    fail("limits to " + std::to_string(pattern.limited_groups) + " of " + std::to_string(pattern.n_groups) + " groups");
  if (pattern.limited_groups * (n_experts / pattern.n_groups) < top_k)
    fail("its groups hold fewer than top_k " + std::to_string(top_k) + " experts");
}

}  // namespace

RoutingPattern parse_routing_pattern(std::string_view text, const RoutingPattern& otherwise) {
  RoutingPattern pattern = otherwise;
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view parameters = colon == text.npos ? "" : text.substr(colon + 1);
  if (name == "grouped") {
    pattern.rule = RoutingRule::grouped;
    if (colon == text.npos) return pattern;
    const std::size_t slash = parameters.find('/');
    pattern.limited_groups = parse_number<int>(parameters.substr(0, slash), text);
    if (slash != parameters.npos) pattern.n_groups = parse_number<int>(parameters.substr(slash + 1), text);
  } else if (name == "zipf") {
    pattern.rule = RoutingRule::zipf;
    pattern.zipf_exponent = parse_number<double>(parameters, text);
    if (!(pattern.zipf_exponent >= 0 && pattern.zipf_exponent <= kMaxZipf)) refuse(text);
  } else if (text == "forced" || text == "round_robin") {
    pattern.rule = RoutingRule::round_robin;
  } else if (text == "uniform") {
    pattern.rule = RoutingRule::uniform;
  } else {
    refuse(text);
  }
  return pattern;
}

std::string routing_pattern_name(const RoutingPattern& pattern) {
  char text[64];
  switch (pattern.rule) {
    case RoutingRule::round_robin:
      return "forced";
    case RoutingRule::uniform:
      return "uniform";
    case RoutingRule::grouped:
      std::snprintf(text, sizeof text, "grouped:%d/%d", pattern.limited_groups, pattern.n_groups);
      return text;
    case RoutingRule::zipf:
      std::snprintf(text, sizeof text, "zipf:%g", pattern.zipf_exponent);
      return text;
  }
  return {};
}

std::vector<std::int32_t> route_by_pattern(const RoutingPattern& pattern, std::int64_t tokens, int top_k, int n_experts,
                                           std::int64_t seed) {
  check(pattern, tokens, top_k, n_experts);
  std::vector<std::int32_t> topk_TK(static_cast<std::size_t>(tokens) * top_k);
  const RoutingDraws draws(seed, "routing_pattern");
  switch (pattern.rule) {
    case RoutingRule::round_robin:
      for (std::size_t i = 0; i < topk_TK.size(); ++i) topk_TK[i] = i % static_cast<std::size_t>(n_experts);
      break;
    case RoutingRule::uniform:
      route_uniform(topk_TK, top_k, n_experts, draws);
      break;
    case RoutingRule::grouped:
      route_grouped(topk_TK, top_k, n_experts, pattern, draws);
      break;
    case RoutingRule::zipf:
      route_zipf(topk_TK, top_k, n_experts, pattern.zipf_exponent, draws);
      break;
  }
  return topk_TK;
}

}  // namespace moescope
