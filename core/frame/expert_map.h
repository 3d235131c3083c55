// A map of a layer's experts in the plane, by the tokens they take: experts that take the same kinds of tokens are near
// each other.
//
// Legend: E experts, F kinds of tokens (bytes or domains), n_fe slots of expert e from tokens of kind f.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

struct ExpertMap {
  // Coordinates of the experts on the first and the second principal component, [E]; kNoValue for an expert without a
  // token.
  std::vector<float> x_E, y_E;
  float x_share = 0, y_share = 0;  // shares of the rows' variance along x and y; 0: no variance
};

// Computes the principal components of the rows a_ef = sqrt(n_fe / sum_f n_fe). The distance of two rows is sqrt(2)
// times the Hellinger distance of the two experts' tokens: 0 if they have equal shares of all kinds, sqrt(2) if they
// have no kind in common. All experts that have tokens have the same weight. The sign of a component is chosen so that
// the expert farthest from 0 on it (on a tie the one with the lowest id) has a positive coordinate; equal counts
// therefore give equal maps. counts_FE is row-major.
ExpertMap expert_map(std::span<const std::uint32_t> counts_FE, int n_experts);

}  // namespace moescope
