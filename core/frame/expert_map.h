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

// An order of a layer's experts for drawing, in which similar experts are neighbours.
//
// Legend: E routed experts; N_ij tokens that chose both i and j, N_ii tokens of i (SpecialisationFrame::together_EE).
// Returns a permutation of [0, E): the leaves of an average-linkage clustering by N_ij / sqrt(N_ii N_jj), the cosine of
// the two experts' token sets (Ochiai), built by nearest-neighbour chains (Murtagh 1983) in O(E^2). Each of two joined
// clusters is reversed if needed so that their more similar ends touch. Ties go to the lower id, so equal counts give
// equal orders. Experts without a token come last, by id. together_EE is row-major.
std::vector<int> coactivation_order(std::span<const std::uint32_t> together_EE, int n_experts);
// coactivation_order() with a given symmetric matrix of similarities, row-major, in place of the cosines.
std::vector<int> similarity_order(std::vector<float> similarity_EE, int n_experts);

}  // namespace moescope
