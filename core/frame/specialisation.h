// All figures computed from specialisation frames and routed texts, each defined only here.
//
// Legend: E experts, K top_k, D domains, T tokens; n_de slots of expert e from domain d, N_ij tokens that chose both i
// and j, N_i tokens that chose i. If nothing was counted a figure is kNoValue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/frame/frame.h"
#include "core/numerics/names.h"

namespace moescope {

// Shares for which SpecialisationFrame::bias_for_share_EQ holds the bias, rising from 0 to 1. bias_shares()[kFairShare]
// is the fair share K / E, and half of the shares are below twice that value.
inline constexpr int kBiasShares = 33, kFairShare = 8;
std::array<double, kBiasShares> bias_shares(int top_k, int n_experts);
// Returns the share of the tokens whose r (SpecialisationFrame::bias_for_share_EQ) is below `bias`, interpolated
// linearly. Values of r below the expert's own bias belong to tokens that chose it, values equal to it to tokens whose
// (K+1)-th choice it was.
double share_at_bias(std::span<const float> bias_for_share_Q, int top_k, int n_experts, double bias);

// Sums of the rows and columns of a table of counts [rows, columns].
struct Margins {
  std::vector<double> rows, columns;
  double total = 0;

  Margins(const std::vector<std::uint32_t>& table, std::size_t n_columns)
      : rows(n_columns ? table.size() / n_columns : 0), columns(n_columns) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      rows[i / n_columns] += table[i];
      columns[i % n_columns] += table[i];
      total += table[i];
    }
  }
};

// Adds `more` to `sum`, which is empty or of the same layer and shape. Counts of more steps have less noise.
void accumulate(SpecialisationFrame& sum, const SpecialisationFrame& more);

// P(e) = sum_d n_de / sum_de n_de, [E]: the shares of a domain without preferences.
std::vector<float> expert_share(const SpecialisationFrame& frame);
// P(e | d) = n_de / sum_e n_de, [D, E]. OLMoE, arXiv:2409.02060, section 5 (domain specialisation).
std::vector<float> domain_share(const SpecialisationFrame& frame);
// P(e | d) / P(e), [D, E]: 1 is no preference.
std::vector<float> domain_lift(const SpecialisationFrame& frame);

// Slots of an expert that are from one kind of token. Lists are in the order of falling lift.
struct TokensOfExpert {
  std::size_t kind;  // a domain, or a byte
  std::uint32_t n_slots;
  float share;  // share of the expert's slots
  float lift;   // P(e | kind) / P(e) = P(kind | e) / P(kind)
};
std::vector<TokensOfExpert> domains_of_expert(const SpecialisationFrame& frame, std::size_t expert);
// Bytes with fewer than `min_slots` slots are left out as noise.
std::vector<TokensOfExpert> bytes_of_expert(const SpecialisationFrame& frame, std::size_t expert,
                                            std::uint32_t min_slots = 5);

// N_ij / N_i, [E, E], kNoValue on the diagonal. Directed: how often tokens of i also chose j. OLMoE, arXiv:2409.02060.
// core/frame/expert_map.h has an order for drawing.
std::vector<float> coactivation_share(const SpecialisationFrame& frame);
// (K - 1) / (E - 1): coactivation_share() if all sets of K experts are equally likely.
float coactivation_baseline(int top_k, int n_experts);

enum class ByteClass : std::uint8_t { lower, upper, digit, space, line_end, bracket, quote, operation, other };
inline constexpr int kNumByteClasses = 9;
ByteClass byte_class(std::uint8_t byte);
inline constexpr auto byte_class_name =
    names_of<ByteClass>("a-z", "A-Z", "0-9", "space", "line end", "brackets", "quotes", "+-*/=", "other");
// P(class | e) / P(class), [kNumByteClasses, E].
std::vector<float> byte_class_lift(const SpecialisationFrame& frame);

// Mean over tokens of |top_K now and top_K then| / K of one layer, for one text: 1 if the routing is unchanged. OLMoE's
// router saturation. kNoValue if the frames cannot be compared: another text or top_k, or no such layer.
float routing_stability(const TokenFrame& newer, const TokenFrame& older, int layer);
// K / E: routing_stability() of two independent routings.
float stability_baseline(int top_k, int n_experts);
// #{tokens whose set of K experts is unchanged} / T. Stricter than routing_stability(): a token with one different
// expert of K counts as changed.
float unchanged_choices(const TokenFrame& newer, const TokenFrame& older, int layer);
// 1 / (E over K): unchanged_choices() of two independent routings.
float unchanged_baseline(int top_k, int n_experts);

const TokenLayer* find_layer(const TokenFrame& text, int layer);  // nullptr if absent
// Shares of token t's chosen experts in its mix: s_k / sum_k s_k, [K] in the order of the layer.
std::vector<float> mix_shares(const TokenLayer& layer, std::size_t token);

// A token in whose mix an expert has a large share. favourite_tokens() returns at most `count` of them, in the order of
// falling shares; of equal tokens in equal contexts only the first.
struct FavouriteToken {
  const TokenFrame* text;
  std::size_t position, end;  // bytes
  float mix_share;
};
std::vector<FavouriteToken> favourite_tokens(std::span<const TokenFrame* const> texts, int layer, int expert,
                                             std::size_t count);

// Limit of the memory for the co-activation of experts, SpecialisationFrame::together_EE.
// True if the tables of these layers together take at most 64 MiB. Larger ones are left out: 16,384 experts would need
// 1 GiB a layer, which no recording holds.
inline bool fits_coactivation(std::size_t layers, std::size_t experts) {
  constexpr std::size_t kMaxPairs = (std::size_t{64} << 20) / sizeof(std::uint32_t);
  return experts == 0 || layers <= kMaxPairs / experts / experts;
}

// How well the experts of a token in one MoE layer predict its experts in the next one. Inference engines that fetch
// experts ahead rely on such predictions.
//
// Legend: T tokens, K top_k, E experts; N_ij tokens with expert i in the previous layer and j in this one, N_i tokens
// with i. Every second token counts in N. For others, evenly spread, the prediction is the K experts j with the largest
// sum over the token's i of N_ij / N_i; of equal sums, the lower id comes first.
class LayerPrediction {
 public:
  static constexpr int kMaxExperts = 4096;

  // `max_predicted` is the largest number of tokens that are predicted in one call of share(); each takes K E
  // additions.
  LayerPrediction(int n_experts, int top_k, std::size_t max_predicted);

  // Returns the share of the predicted tokens' experts that are among the K predicted ones. Ids of E and above are
  // slots without an expert. Returns kNoValue if there are fewer than two tokens or more than kMaxExperts experts, if
  // the tables have different sizes, or if no expert was chosen.
  float share(std::span<const std::uint16_t> before_TK, std::span<const std::uint16_t> chosen_TK);

 private:
  using Row = std::span<const std::uint16_t>;
  void teach(Row before_K, Row chosen_K, std::uint32_t by);
  std::size_t hits(Row before_K, Row chosen_K);

  std::size_t experts_, top_k_, most_asked_;
  std::vector<std::uint32_t> together_, tokens_;  // [E, E], [E]; zero between two calls
  std::vector<double> score_;
  std::vector<std::uint16_t> order_;
};

}  // namespace moescope
