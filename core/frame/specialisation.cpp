#include "core/frame/specialisation.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/files/text/no_value.h"
#include "core/frame/router_stats.h"

namespace moescope {
namespace {

constexpr std::size_t kContextBytes = 4;  // occurrences of a token are equal if this many bytes on both sides are

float ratio(double a, double b) {
  return b > 0 ? static_cast<float>(a / b) : kNoValue;
}

// Returns P(kind | e) / P(kind), [kinds, E]. The table of slots has the same shape.
std::vector<float> lift_of(const std::vector<std::uint32_t>& slots, std::size_t experts) {
  const Margins sums(slots, experts);
  std::vector<float> lift;
  for (std::size_t i = 0; i < slots.size(); ++i)
    lift.push_back(ratio(slots[i] * sums.total, sums.rows[i / experts] * sums.columns[i % experts]));
  return lift;
}

std::vector<TokensOfExpert> tokens_of_expert(const std::vector<std::uint32_t>& slots_FE, std::size_t experts,
                                             std::size_t expert, std::uint32_t min_slots) {
  const Margins sums(slots_FE, experts);
  std::vector<TokensOfExpert> found;
  for (std::size_t kind = 0; kind < sums.rows.size(); ++kind) {
    const std::uint32_t slots = slots_FE[kind * experts + expert];
    if (slots >= min_slots && sums.rows[kind] > 0 && sums.columns[expert] > 0)
      found.push_back({kind, slots, ratio(slots, sums.columns[expert]),
                       ratio(slots * sums.total, sums.rows[kind] * sums.columns[expert])});
  }
  std::ranges::stable_sort(found, std::greater(), &TokensOfExpert::lift);
  return found;
}

std::string_view surroundings(const TokenFrame& text, std::size_t position) {
  const std::size_t first = position < kContextBytes ? 0 : position - kContextBytes;
  return std::string_view(text.text).substr(first, position + kContextBytes + 1 - first);
}

// Returns for each token how many of its K experts are in common; empty if the two frames cannot be compared.
std::vector<std::size_t> shared_experts(const TokenFrame& newer, const TokenFrame& older, int layer) {
  const TokenLayer *a = find_layer(newer, layer), *b = find_layer(older, layer);
  if (!a || !b || a->top_k != b->top_k || newer.text != older.text) return {};
  const std::size_t top_k = a->top_k;
  std::vector<std::size_t> shared;
  for (const TokenSpan& token : token_spans(newer)) {
    const auto* chosen = a->experts_TK.data() + token.begin * top_k;
    const auto* before = b->experts_TK.data() + token.begin * top_k;
    shared.push_back(std::count_if(chosen, chosen + top_k, [&](std::uint16_t e) {
      return std::find(before, before + top_k, e) != before + top_k;
    }));
  }
  return shared;
}

}  // namespace

std::array<double, kBiasShares> bias_shares(int top_k, int n_experts) {
  const double fair = static_cast<double>(top_k) / n_experts, twice = std::min(2 * fair, 1.0);
  const int half_shares = 2 * kFairShare;
  std::array<double, kBiasShares> shares{};
  for (int i = 0; i < kBiasShares; ++i) {
    double& share = shares[i];
    if (i <= kFairShare)
      share = fair * i / kFairShare;
    else if (i <= half_shares)
      share = fair + (twice - fair) * (i - kFairShare) / kFairShare;
    else
      share = twice + (1 - twice) * (i - half_shares) / (kBiasShares - 1 - half_shares);
  }
  return shares;
}

double share_at_bias(std::span<const float> bias_for_share_Q, int top_k, int n_experts, double bias) {
  const auto shares = bias_shares(top_k, n_experts);
  const auto above = std::ranges::lower_bound(bias_for_share_Q, static_cast<float>(bias));
  if (above == bias_for_share_Q.begin()) return 0;
  if (above == bias_for_share_Q.end()) return 1;
  const std::size_t i = above - bias_for_share_Q.begin();
  const double low = above[-1], high = *above;
  return shares[i - 1] + (shares[i] - shares[i - 1]) * (bias - low) / (high - low);
}

void accumulate(SpecialisationFrame& sum, const SpecialisationFrame& more) {
  sum.layer = more.layer;
  sum.experts = more.experts;
  add_counts(sum.domain_DE, more.domain_DE);
  add_counts(sum.together_EE, more.together_EE);
  add_counts(sum.byte_256E, more.byte_256E);
}

std::vector<float> expert_share(const SpecialisationFrame& frame) {
  const Margins sums(frame.domain_DE, frame.n_experts());
  std::vector<float> share;
  for (const double slots : sums.columns) share.push_back(ratio(slots, sums.total));
  return share;
}

std::vector<float> domain_share(const SpecialisationFrame& frame) {
  const std::size_t experts = frame.n_experts();
  const Margins sums(frame.domain_DE, experts);
  std::vector<float> share;
  for (std::size_t i = 0; i < frame.domain_DE.size(); ++i)
    share.push_back(ratio(frame.domain_DE[i], sums.rows[i / experts]));
  return share;
}

std::vector<float> domain_lift(const SpecialisationFrame& frame) {
  return lift_of(frame.domain_DE, frame.n_experts());
}

std::vector<TokensOfExpert> domains_of_expert(const SpecialisationFrame& frame, std::size_t expert) {
  return tokens_of_expert(frame.domain_DE, frame.n_experts(), expert, 0);
}

std::vector<TokensOfExpert> bytes_of_expert(const SpecialisationFrame& frame, std::size_t expert,
                                            std::uint32_t min_slots) {
  return tokens_of_expert(frame.byte_256E, frame.n_experts(), expert, std::max(1u, min_slots));
}

std::vector<float> coactivation_share(const SpecialisationFrame& frame) {
  const std::size_t experts = frame.n_experts();
  std::vector<float> share(frame.together_EE.size(), kNoValue);
  for (std::size_t i = 0; i < experts && !share.empty(); ++i)
    for (std::size_t j = 0; j < experts; ++j)
      if (i != j)
        share[i * experts + j] = ratio(frame.together_EE[i * experts + j], frame.together_EE[i * experts + i]);
  return share;
}

float coactivation_baseline(int top_k, int n_experts) {
  return ratio(top_k - 1, n_experts - 1);
}

ByteClass byte_class(std::uint8_t byte) {
  const char c = static_cast<char>(byte);
  const auto is_one_of = [c](std::string_view set) { return set.find(c) != std::string_view::npos; };
  if (byte >= 'a' && byte <= 'z') return ByteClass::lower;
  if (byte >= 'A' && byte <= 'Z') return ByteClass::upper;
  if (byte >= '0' && byte <= '9') return ByteClass::digit;
  if (c == ' ' || c == '\t') return ByteClass::space;
  if (c == '\n' || c == '\r') return ByteClass::line_end;
  if (is_one_of("()[]{}<>")) return ByteClass::bracket;
  if (is_one_of("\"'`")) return ByteClass::quote;
  if (is_one_of("+-*/=%^&|!~")) return ByteClass::operation;
  return ByteClass::other;
}

std::vector<float> byte_class_lift(const SpecialisationFrame& frame) {
  const std::size_t experts = frame.n_experts();
  if (frame.byte_256E.empty()) return {};
  std::vector<std::uint32_t> slots(kNumByteClasses * experts);
  for (std::size_t b = 0; b < 256; ++b) {
    const auto class_begin = static_cast<std::size_t>(byte_class(static_cast<std::uint8_t>(b))) * experts;
    for (std::size_t e = 0; e < experts; ++e) slots[class_begin + e] += frame.byte_256E[b * experts + e];
  }
  return lift_of(slots, experts);
}

float routing_stability(const TokenFrame& newer, const TokenFrame& older, int layer) {
  const std::vector<std::size_t> shared = shared_experts(newer, older, layer);
  if (shared.empty()) return kNoValue;
  const double unchanged_count = std::accumulate(shared.begin(), shared.end(), std::size_t{0});
  return static_cast<float>(unchanged_count / (static_cast<double>(shared.size()) * find_layer(newer, layer)->top_k));
}

float unchanged_choices(const TokenFrame& newer, const TokenFrame& older, int layer) {
  const std::vector<std::size_t> shared = shared_experts(newer, older, layer);
  if (shared.empty()) return kNoValue;
  const std::size_t top_k = find_layer(newer, layer)->top_k;
  return ratio(std::ranges::count(shared, top_k), shared.size());
}

float unchanged_baseline(int top_k, int n_experts) {
  double sets = 1;
  for (int k = 0; k < top_k; ++k) sets *= static_cast<double>(n_experts - k) / (k + 1);
  return ratio(1, sets);
}

float stability_baseline(int top_k, int n_experts) {
  return ratio(top_k, n_experts);
}

const TokenLayer* find_layer(const TokenFrame& text, int layer) {
  const auto found = std::ranges::find(text.layers, layer, &TokenLayer::layer);
  return found == text.layers.end() ? nullptr : &*found;
}

std::vector<float> mix_shares(const TokenLayer& layer, std::size_t token) {
  const std::size_t top_k = layer.top_k;
  const float* scores = layer.scores_TK.data() + token * top_k;
  const double sum = std::accumulate(scores, scores + top_k, 0.0);
  std::vector<float> shares;
  for (std::size_t k = 0; k < top_k; ++k) shares.push_back(ratio(scores[k], sum));
  return shares;
}

std::vector<FavouriteToken> favourite_tokens(std::span<const TokenFrame* const> texts, int layer, int expert,
                                             std::size_t count) {
  std::vector<FavouriteToken> found;
  for (const TokenFrame* text : texts) {
    const TokenLayer* routed = text ? find_layer(*text, layer) : nullptr;
    if (!routed) continue;
    const std::size_t top_k = routed->top_k;
    for (const TokenSpan& token : token_spans(*text))
      for (std::size_t k = 0; k < top_k; ++k)
        if (routed->experts_TK[token.begin * top_k + k] == expert)
          found.push_back({text, token.begin, token.end, mix_shares(*routed, token.begin)[k]});
  }
  std::ranges::stable_sort(found, std::greater(), &FavouriteToken::mix_share);
  std::vector<FavouriteToken> best;
  for (const FavouriteToken& token : found) {
    if (best.size() == count) break;
    const auto bytes = [](const FavouriteToken& favourite) {
      return std::string_view(favourite.text->text).substr(favourite.position, favourite.end - favourite.position);
    };
    const auto known = [&](const FavouriteToken& other) {
      return bytes(other) == bytes(token) &&
             surroundings(*other.text, other.position) == surroundings(*token.text, token.position);
    };
    if (std::ranges::none_of(best, known)) best.push_back(token);
  }
  return best;
}

LayerPrediction::LayerPrediction(int n_experts, int top_k, std::size_t max_predicted)
    : experts_(n_experts > kMaxExperts ? 0 : static_cast<std::size_t>(std::max(n_experts, 0))),
      top_k_(std::max(top_k, 1)),
      most_asked_(max_predicted),
      together_(experts_ * experts_),
      tokens_(experts_),
      score_(experts_),
      order_(experts_) {}

// Adds `by` to the counts; 2^32 - 1 subtracts one, modulo 2^32.
void LayerPrediction::teach(Row before_K, Row chosen_K, std::uint32_t by) {
  for (const std::uint16_t i : before_K) {
    if (i >= experts_) continue;
    tokens_[i] += by;
    for (const std::uint16_t j : chosen_K)
      if (j < experts_) together_[i * experts_ + j] += by;
  }
}

// Returns how many of the chosen experts are among the predicted ones.
std::size_t LayerPrediction::hits(Row before_K, Row chosen_K) {
  std::ranges::fill(score_, 0);
  for (const std::uint16_t i : before_K)
    for (std::size_t j = 0; i < experts_ && j < experts_ && tokens_[i] > 0; ++j)
      score_[j] += static_cast<double>(together_[i * experts_ + j]) / tokens_[i];
  std::iota(order_.begin(), order_.end(), std::uint16_t{0});
  const auto guessed = order_.begin() + std::min(top_k_, experts_);
  std::ranges::partial_sort(order_, guessed, [&](std::uint16_t a, std::uint16_t b) {
    return score_[a] > score_[b] || (score_[a] == score_[b] && a < b);
  });
  return std::count_if(order_.begin(), guessed,
                       [&](std::uint16_t expert) { return std::ranges::find(chosen_K, expert) != chosen_K.end(); });
}

float LayerPrediction::share(std::span<const std::uint16_t> before_TK, std::span<const std::uint16_t> chosen_TK) {
  const std::size_t tokens = chosen_TK.size() / top_k_;
  if (experts_ == 0 || tokens < 2 || before_TK.size() != chosen_TK.size()) return kNoValue;
  const auto row = [&](Row layer_row, std::size_t token) { return layer_row.subspan(token * top_k_, top_k_); };
  const auto teach_all = [&](std::uint32_t by) {
    for (std::size_t t = 0; t < tokens; t += 2) teach(row(before_TK, t), row(chosen_TK, t), by);
  };
  teach_all(1);
  const std::size_t odd_tokens = tokens / 2, sampled_tokens = std::clamp<std::size_t>(most_asked_, 1, odd_tokens);
  std::size_t right = 0, chosen = 0;
  for (std::size_t i = 0; i < sampled_tokens; ++i) {
    const std::size_t t = 2 * (i * odd_tokens / sampled_tokens) + 1;
    const Row chosen_K = row(chosen_TK, t);
    right += hits(row(before_TK, t), chosen_K);
    chosen += std::ranges::count_if(chosen_K, [&](auto expert) { return expert < experts_; });
  }
  teach_all(~std::uint32_t{0});
  return chosen == 0 ? kNoValue : static_cast<float>(right / static_cast<double>(chosen));
}

}  // namespace moescope
