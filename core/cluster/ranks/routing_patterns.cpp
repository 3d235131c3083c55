#include "core/cluster/ranks/routing_patterns.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

#include "core/files/text/words.h"
#include "core/numerics/index.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

class RoutingDraws {
 public:
  RoutingDraws(std::int64_t seed, std::string_view purpose) : stream_(seed, purpose) {}
  double uniform() { return stream_.uniform(next_++); }
  int below(int n) { return static_cast<int>(uniform() * n); }  // the bias of 2^-53 n is negligible
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (int i = static_cast<int>(values.size()) - 1; i > 0; --i) std::swap(values[i], values[below(i + 1)]);
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

std::vector<std::int32_t> first_ids(std::size_t count) {
  std::vector<std::int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

constexpr double kMaxZipf = 8;

[[noreturn]] void refuse(std::string_view text) {
  throw std::runtime_error(
      "routing '" + std::string(text) +
      "' is not known; allowed: forced, uniform, grouped[:LIMITED[/GROUPS]] and zipf:EXPONENT (0 to 8)");
}

template <class Number>
Number parse_number(std::string_view digits, std::string_view whole) {
  Number value{};
  if (!read_number(digits, value)) refuse(whole);
  return value;
}

// Makes the first `count` of `ids` a random sample without replacement (Fisher-Yates).
void sample(std::vector<std::int32_t>& ids, int count, RoutingDraws& draws) {
  const int size = to_int(ids.size());
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
  if (top_k > n_experts) fail(fmt::format("top_k {} is more than the {} experts", top_k, n_experts));
  if (pattern.rule != RoutingRule::grouped) return;
  if (pattern.n_groups < 1 || n_experts % pattern.n_groups)
    fail(fmt::format("{} experts do not divide into {} groups", n_experts, pattern.n_groups));
  if (pattern.limited_groups < 1 || pattern.limited_groups > pattern.n_groups)
    fail(fmt::format("limits to {} of {} groups", pattern.limited_groups, pattern.n_groups));
  if (pattern.limited_groups * (n_experts / pattern.n_groups) < top_k)
    fail(fmt::format("its groups hold fewer than top_k {} experts", top_k));
}

// Number of random orders of the experts; each token uses one of them, because drawing an order for each token would
// take long.
constexpr int kOrders = 1024;

// Returns shares of tokens that sum to `count`, in proportion to `weights` and none above 1.
std::vector<double> inclusion(std::vector<double> weights, double count) {
  std::vector<bool> full(weights.size());
  for (;;) {
    double remaining_weight = 0, remaining_count = count;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i])
        remaining_count -= 1;
      else
        remaining_weight += weights[i];
    }
    bool more = false;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i] || weights[i] * remaining_count <= remaining_weight) continue;
      full[i] = more = true;
    }
    if (more) continue;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double weight = remaining_weight > 0 ? weights[i] * remaining_count / remaining_weight : 0;
      weights[i] = full[i] ? 1 : weight;
    }
    return weights;
  }
}

// Gives experts without load a tiny load, because a token needs K different experts.
std::vector<double> positive(std::span<const double> load) {
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / load.size();
  std::vector<double> weights(load.begin(), load.end());
  for (double& weight : weights) weight = mean > 0 ? std::max(weight, 1e-6 * mean) : 1;
  return weights;
}

void add_up(std::span<const std::int32_t> order, std::span<const double> share, std::span<double> sums) {
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) sums[i] = sum += share[order[i]];
}

// Returns the index of the first sum above `value`, or their number. A search without branches, because no branch of it
// could be predicted.
std::size_t first_above(std::span<const double> sums, double value) {
  std::size_t first = 0, count = sums.size();
  for (; count > 1; count -= count / 2) first += (sums[first + count / 2 - 1] <= value) * (count / 2);
  return first + (sums[first] <= value);
}

// Systematic sampling (Madow 1949): takes each expert of `order` at which the sum of shares along it passes a whole
// number plus a random start. The probability of each expert is exactly its share, and none is taken twice. If rounding
// leaves one of the `count` places empty, the first expert of `order` with a share that is not yet taken fills it.
void take(std::span<const std::int32_t> order, std::span<const double> sums, int count, double start,
          std::int32_t* chosen) {
  int n = 0;
  for (std::size_t next = 0; n < count; ++next) {
    next = std::max(next, first_above(sums, n + start));
    if (next == sums.size()) break;
    chosen[n++] = order[next];
  }
  for (std::size_t i = 0; n < count && i < order.size(); ++i) {
    const bool has_share = sums[i] > (i > 0 ? sums[i - 1] : 0);
    if (has_share && std::find(chosen, chosen + n, order[i]) == chosen + n) chosen[n++] = order[i];
  }
}

// Returns the shares of the experts for a token that has drawn `groups`; experts of other groups get 0. Loads are
// divided by the probability of their group, `group_share`, so that over all tokens a group gets its load. All drawn
// groups then get equally many slots, except those that every token draws.
std::vector<double> shares_in_groups(std::span<const double> load, std::span<const double> group_share,
                                     std::span<const std::int32_t> groups, int top_k) {
  const std::size_t size = load.size() / group_share.size();
  std::vector<double> weights, share(load.size());
  for (const std::int32_t g : groups) {
    const double scale = 1 / group_share[g];
    for (std::size_t i = 0; i < size; ++i) weights.push_back(load[g * size + i] * scale);
  }
  weights = inclusion(std::move(weights), top_k);
  for (std::size_t i = 0; i < groups.size(); ++i) std::copy_n(&weights[i * size], size, &share[groups[i] * size]);
  return share;
}

void check(std::size_t n_experts, std::int64_t tokens, int top_k, int n_groups, int limited_groups) {
  const int experts = to_int(n_experts);
  const auto fail = [](const std::string& reason) { throw std::runtime_error("routing by load: " + reason); };
  if (tokens < 0 || top_k < 1 || top_k > experts) fail(fmt::format("top_k {} of {} experts cannot be", top_k, experts));
  if (limited_groups == 0) return;
  if (n_groups < 1 || experts % n_groups || limited_groups < 0 || limited_groups > std::min(n_groups, 64))
    fail(fmt::format("{} of {} groups of {} experts cannot be", limited_groups, n_groups, experts));
  if (limited_groups * (experts / n_groups) < top_k)
    fail(fmt::format("the groups of a token hold fewer than {} experts", top_k));
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
  switch (pattern.rule) {
    case RoutingRule::round_robin:
      return "forced";
    case RoutingRule::uniform:
      return "uniform";
    case RoutingRule::grouped:
      return fmt::format("grouped:{}/{}", pattern.limited_groups, pattern.n_groups);
    case RoutingRule::zipf:
      return fmt::format("zipf:{:g}", pattern.zipf_exponent);
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
      for (std::size_t i = 0; i < topk_TK.size(); ++i) topk_TK[i] = to_int(i % static_cast<std::size_t>(n_experts));
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

std::vector<double> stretch_load(std::span<const std::uint32_t> tokens_per_expert, int n_experts, std::int64_t seed) {
  std::vector<double> sorted(tokens_per_expert.begin(), tokens_per_expert.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> load(n_experts, 1.0);
  if (sorted.empty() || sorted.back() == 0) return load;
  const double scale = static_cast<double>(sorted.size()) / n_experts;
  for (int i = 0; i < n_experts; ++i) {
    const double at = std::clamp((i + 0.5) * scale - 0.5, 0.0, static_cast<double>(sorted.size() - 1));
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    load[i] = std::lerp(sorted[low], sorted[high], at - low);
  }
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / n_experts;
  for (double& u : load) u /= mean;
  RoutingDraws(seed, "load_routing").shuffle(load);
  return load;
}

std::vector<double> load_in_order(std::span<const std::uint32_t> tokens_per_expert, int n_experts) {
  std::vector<double> load(n_experts, 1.0);
  const double tokens = std::accumulate(tokens_per_expert.begin(), tokens_per_expert.end(), 0.0);
  const double part = static_cast<double>(tokens_per_expert.size()) / n_experts;
  for (int i = 0; tokens > 0 && i < n_experts; ++i) {
    double tokens_of_part = 0;
    for (auto e = static_cast<std::size_t>(i * part); e < tokens_per_expert.size() && e < (i + 1) * part; ++e)
      tokens_of_part += tokens_per_expert[e] * (std::min((i + 1) * part, e + 1.0) - std::max<double>(i * part, e));
    load[i] = tokens_of_part * n_experts / tokens;
  }
  return load;
}

std::vector<std::int32_t> route_by_load(std::span<const double> load_E, std::int64_t tokens, int top_k, int n_groups,
                                        int limited_groups, std::int64_t seed) {
  check(load_E.size(), tokens, top_k, n_groups, limited_groups);
  std::vector<std::int32_t> topk_TK(static_cast<std::size_t>(tokens) * top_k);
  RoutingDraws draws(seed, "load_routing");
  const std::vector<double> load = positive(load_E);
  const bool grouped = limited_groups > 0;
  std::vector<std::vector<std::int32_t>> orders;
  std::vector<std::int32_t> order = first_ids(load.size());
  for (int i = 0; i < kOrders; ++i) {
    draws.shuffle(order);
    orders.push_back(order);
  }
  std::vector<double> group_share(grouped ? n_groups : 0), sums(group_share.size());
  for (std::size_t e = 0; grouped && e < load.size(); ++e) group_share[e / (load.size() / n_groups)] += load[e];
  group_share = inclusion(std::move(group_share), limited_groups);
  // Tokens with the same groups, else those with the same order, take their experts one after another, because the
  // shares of all of them do not fit in a cache.
  struct Token {
    std::int32_t* chosen;
    int order;
    double start;
  };
  std::map<std::vector<std::int32_t>, std::vector<Token>> tokens_of_key;
  std::vector<std::int32_t> groups = first_ids(group_share.size()), key(grouped ? limited_groups : 1);
  for (auto at = topk_TK.begin(); at != topk_TK.end(); at += top_k) {
    if (grouped) {
      draws.shuffle(groups);
      add_up(groups, group_share, sums);
      take(groups, sums, limited_groups, draws.uniform(), key.data());
    }
    const double start = draws.uniform();
    const int drawn_order = draws.below(kOrders);
    if (!grouped) key = {drawn_order};
    tokens_of_key[key].push_back({&*at, drawn_order, start});
  }
  sums.resize(load.size());
  std::vector<double> share = inclusion(load, top_k);
  for (const auto& [key_of_tokens, tokens] : tokens_of_key) {
    if (grouped) share = shares_in_groups(load, group_share, key_of_tokens, top_k);
    for (const Token& token : tokens) {
      if (grouped || &token == &tokens.front()) add_up(orders[token.order], share, sums);
      take(orders[token.order], sums, top_k, token.start, token.chosen);
    }
  }
  return topk_TK;
}

}  // namespace moescope
