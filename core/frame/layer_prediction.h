// How well the experts that a token got in one MoE layer tell which it gets in the next.
//
// Legend: T tokens, K top_k, E experts; N_ij tokens with i in the layer before and j in this one, N_i tokens with i.
// Every second token teaches N; of the others, evenly spread, the K experts j of the largest
//   sum over the token's i of N_ij / N_i
// are guessed, the lower number where two are equal. What inference engines that fetch experts ahead build on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

class LayerPrediction {
 public:
  static constexpr int kMostExperts = 4096;

  // At most `most_asked` tokens of a pair of layers are guessed, each of which takes time for K E numbers.
  LayerPrediction(int n_experts, int top_k, std::size_t most_asked);

  // Share of the guessed tokens' experts that are among the K guessed ones. Numbers of E and above are slots without an
  // expert. kNoValue: fewer than two tokens, tables of another size, more than kMostExperts, or no expert was chosen.
  float share(std::span<const std::uint16_t> before_TK, std::span<const std::uint16_t> chosen_TK);

 private:
  using Row = std::span<const std::uint16_t>;
  void teach(Row before_K, Row chosen_K, std::uint32_t by);
  std::size_t hits(Row before_K, Row chosen_K);

  std::size_t experts_, top_k_, most_asked_;
  std::vector<std::uint32_t> together_, tokens_;  // [E, E], [E]; zeros between two calls
  std::vector<double> score_;
  std::vector<std::uint16_t> order_;
};

}  // namespace moescope
