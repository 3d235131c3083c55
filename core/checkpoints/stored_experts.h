// Forward pass of the feed-forward half of a checkpoint's layer: dense, or a router with experts.
//
// Legend: T tokens, D dim, F hidden width, E experts, K top_k.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/checkpoints/checkpoint_config.h"
#include "core/checkpoints/stored_matrix.h"

namespace moescope {

struct StoredFeedForward {
  // [F, D] each; or `up` is empty and `gate` holds both, [2F, D]: gate, then up; their rows alternate if `clamp` is
  // set.
  StoredLinear gate, up;
  StoredLinear down;                 // [D, F]
  std::optional<double> clamp = {};  // see FeedForwardLayers
  bool empty() const { return down.empty(); }
};

// y_TD = feed_forward(h_TD), added to y if `accumulate`.
void feed_forward_forward(const StoredFeedForward& w, ConstMatrix<float> h, Matrix<float> y, bool accumulate = false);

struct StoredExperts {
  StoredLinear router;                     // [E, D]
  std::vector<float> choice_bias;          // [E]; empty: none
  std::vector<std::uint8_t> removed = {};  // [E] 1: no token can choose the expert; empty: none is removed
  std::vector<StoredFeedForward> experts;
  StoredFeedForward shared;  // empty: none
  StoredLinear shared_gate;  // [1, D]; empty: none
  float added_factor = 1;    // factor of the outputs when they are added to the residual stream
};

// How the tokens of a pass were routed in one layer.
struct RoutedTokens {
  int experts = 0, top_k = 0;
  std::vector<float> logits, scores;  // [T, E]
  std::vector<std::int32_t> ids;      // [T, K] chosen experts, ascending for each token
  std::vector<float> mix;             // [T, K] mixing weights
  std::vector<float> margin;          // [T] K-th minus (K+1)-th choice score; NaN if there is no (K+1)-th
};
RoutedTokens route(const CheckpointRouter& router, const StoredExperts& w, ConstMatrix<float> h);

// y_TD += outputs of the chosen experts times their mixing weights, and the output of the shared experts.
// `output_norms`, unless nullptr, gets the norm of each chosen expert's output, [T, K].
void experts_forward(const StoredExperts& w, const RoutedTokens& routed, ConstMatrix<float> h, Matrix<float> y,
                     std::vector<float>* output_norms = nullptr);

}  // namespace moescope
