// An order of a layer's experts for drawing, in which similar experts are neighbours.
//
// Legend: E routed experts; N_ij tokens that chose both i and j, N_ii tokens of i (SpecialisationFrame::together_EE).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

// Returns a permutation of [0, E): the leaves of an average-linkage clustering by N_ij / sqrt(N_ii N_jj), the cosine of
// the two experts' token sets (Ochiai), built by nearest-neighbour chains (Murtagh 1983) in O(E^2). Each of two joined
// clusters is reversed if needed so that their more similar ends touch. Ties go to the lower id, so equal counts give
// equal orders. Experts without a token come last, by id. together_EE is row-major.
std::vector<int> coactivation_order(std::span<const std::uint32_t> together_EE, int n_experts);
// coactivation_order() with a given symmetric matrix of similarities, row-major, in place of the cosines.
std::vector<int> similarity_order(std::vector<float> similarity_EE, int n_experts);

}  // namespace moescope
