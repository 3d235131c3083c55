// How well the experts of a token in one MoE layer predict its experts in the next one. Inference engines that fetch
// experts ahead rely on such predictions.
//
// Legend: T tokens, K top_k, E experts; N_ij tokens with expert i in the previous layer and j in this one, N_i tokens
// with i. Every second token counts in N. For others, evenly spread, the prediction is the K experts j with the largest
// sum over the token's i of N_ij / N_i; of equal sums, the lower id comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

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
