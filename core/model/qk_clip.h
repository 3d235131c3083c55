// QK-clip of MuonClip (Kimi K2, arXiv:2507.20534): after the step, queries and keys of a head whose largest score was
// above a limit are scaled down, so that the same input would give the limit. As in Megatron-LM's qk_clip.py with
// latent attention and alpha = 1/2.
//
// Legend: L layers, H heads.
#pragma once

#include <span>
#include <vector>

#include "core/model/layers/parameters.h"
#include "core/model/transformer.h"

namespace moescope {

// Returns [L, H] for the last forward pass, over the whole batch; includes 1 / sqrt(head dim). Collective.
template <class T>
std::vector<T> largest_scores_of_heads(const Transformer<T>& model);

// For a head above the limit, eta = limit / largest: its rows of wq (or wq_b) and wkv_b for the parts without rotation
// are both scaled by sqrt(eta), its rotated queries by eta, because all heads share the rotated key.
template <class T>
void clip_queries_and_keys(const ModelConfig& model, std::span<const T> largest_LH, T limit,
                           const ModelView<T>& weights);

}  // namespace moescope
