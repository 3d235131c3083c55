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
  // Coordinates of the experts on the first and the second principal component, [E]; kNoValue: it has no token.
  std::vector<float> x_E, y_E;
  float x_share = 0, y_share = 0;  // shares of the variance of the rows; 0: all experts take the same
};

// Principal components of the rows a_ef = sqrt(n_fe / sum_f n_fe), whose distances are Hellinger distances of the
// experts' tokens times sqrt(2): from 0, equal shares of all kinds, to sqrt(2), no kind in common. All experts that
// have tokens count alike. The sign of a component is that of the expert farthest from 0 on it (of the lowest id on a
// tie), which is positive, so that equal counts give equal maps. counts_FE is row-major.
ExpertMap expert_map(std::span<const std::uint32_t> counts_FE, int n_experts);

}  // namespace moescope
