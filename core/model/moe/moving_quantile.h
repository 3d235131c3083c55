// Moving quantile balancing: an even load of every sequence, without looking at later tokens (Su Jianlin,
// kexue.fm/archives/11760).
//
// An expert would get its fair share of the tokens up to the current one if it took the tokens with a score above the
// quantile 1 - K / E of its scores. The quantile is that of an exponential moving average of their histogram along the
// sequence:
//   h_t = g h_(t-1) + (1 - g) onehot(bin of s_te),  g = 0.99, 100 equal bins from 0 to 1
//   q_te = middle of the first bin up to which h_t adds up to 1 - K / E
// Experts are chosen by s_te - lambda q_te, plus a bias of the whole batch (quantile_balance.h). The source leaves open
// how the average begins: here h_(-1) = 0, and h_t is divided by its sum, so that it is a distribution from the first
// token on.
// Legend: T tokens, E experts, K top_k.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/batch_part.h"
#include "core/numerics/matrix.h"

namespace moescope {

inline constexpr int kMovingBins = 100;
inline constexpr double kMovingDecay = 0.99;

// Computes levelled_TE = s_te - lambda q_te of this rank's tokens, which are whole sequences; lambda is
// router.sequence_strength. Killed experts are not counted in E.
template <class T>
void level_sequences(const RouterConfig& config, const BatchPart& part, Matrix<const T> scores,
                     const std::uint8_t* killed, std::vector<T>& levelled_scores);

}  // namespace moescope
