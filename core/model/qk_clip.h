// QK-clip of MuonClip (Kimi K2, arXiv:2507.20534): after the step, queries and keys of a head whose largest score was
// above a limit are scaled down, so that the same input would give the limit. The rule is that of Megatron-LM's
// qk_clip.py with latent attention and alpha = 1/2.
//
// Legend: L layers, H heads.
#pragma once

#include <span>
#include <vector>

#include "core/model/layers/parameters.h"
#include "core/model/transformer.h"

namespace moescope {

// Returns the largest attention score of each head in the last forward pass over the whole batch, [L, H]. Scores
// include the factor 1 / sqrt(head dim). Collective.
template <class T>
std::vector<T> largest_scores_of_heads(const Transformer<T>& model);

// Scales down each head whose largest score is above `limit`, with eta = limit / largest score: its rows of wq (or
// wq_b) and wkv_b for the parts without rotation by sqrt(eta), and its rows for rotated queries by eta, because all
// heads share the rotated key.
template <class T>
void clip_queries_and_keys(const ModelConfig& model, std::span<const T> largest_LH, T limit,
                           const ModelView<T>& weights);

}  // namespace moescope
