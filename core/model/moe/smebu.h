// SMEBU, soft-clamped momentum expert bias updates: the bias rule of Trinity Large (arXiv:2602.17004).
//
//   v_e = (mean(n) - n_e) / mean(n)        n_e: tokens of expert e
//   d_e = rate tanh(kappa v_e)             less the mean of d with bias_centring, as in the paper
//   m_e = beta m_e + (1 - beta) d_e,  b_e += m_e
// Trinity Large: rate 0.0005, kappa 2, beta 0.5. The sign rule never gets closer to a bias than its step; here steps
// shrink with the error. Legend: E experts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

// Rate, kappa, beta and centring are those of `config`. An empty momentum_E is one of zeros. Killed experts keep bias
// and momentum, and both means are over the others.
template <class T>
void update_by_smebu(const RouterConfig& config, std::span<const std::uint32_t> tokens_per_expert,
                     std::span<T> expert_bias, std::vector<T>& momentum, const std::uint8_t* killed = nullptr);

}  // namespace moescope
