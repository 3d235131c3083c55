// An order of a layer's experts for drawing in which those that are chosen together are neighbours.
//
// Legend: E routed experts; N_ij tokens that chose both i and j, N_ii tokens of i (SpecialisationFrame::together_EE).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

// Leaves of an average-linkage clustering by N_ij / sqrt(N_ii N_jj), the cosine of the two experts' token sets
// (Ochiai), built by nearest-neighbour chains (Murtagh 1983) in O(E^2); where two clusters meet each is turned so that
// the more alike ends touch. Ties go to the lower id, so the same counts give the same order. Experts without a token
// come last, by id. together_EE is row-major. Returns a permutation of [0, E).
std::vector<int> coactivation_order(std::span<const std::uint32_t> together_EE, int n_experts);

}  // namespace moescope
