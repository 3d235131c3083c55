// Muon: a step along the orthogonal matrix nearest to a matrix's momentum (Jordan 2024; for experts Kimi K2,
// arXiv:2507.20534). Order of operations and constants are TorchTitan's (distributed/flex_shard/dist_muon.py).
//
// For a weight W [m, n] with gradient G, momentum M, rate lr, decay wd:
//   M += (1 - mu) (G - M);   U = G + mu (M - G) with Nesterov's look-ahead, else M
//   X = U / max(|U|, 1e-7), Frobenius norm;  five times, on the shorter side of X:
//     A = X X^T;  B = b A + c A A;  X = a X + B X          (a, b, c) = (3.4445, -4.7750, 2.0315)
//   W = (1 - lr wd) W - lr ratio X
// The five iterations do not make X orthogonal: its singular values end between about 0.7 and 1.2.
//
// Muon updates these matrices separately: every expert's w1, w2 and w3, each head's part of wq (wq_b) and wkv_b, and
// each of the other weights of attention, feed-forwards and the gate. AdamW updates embedding, head and norms.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"

namespace moescope {

// A matrix that Muon updates, row-major and contiguous in the arenas.
struct MuonMatrix {
  std::size_t offset = 0;
  int rows = 0, cols = 0;
  int expert = -1;  // -1 if not of a routed expert
  const ParameterTensor* tensor = nullptr;
};

bool is_moved_by_muon(const ParameterTensor& tensor);
// Returns the most costly matrices first, so that threads end together.
std::vector<MuonMatrix> muon_matrices(const ModelConfig& config, std::span<const ParameterTensor> tensors);

// Returns the factor of the learning rate of an m x n matrix:
//     original         sqrt(max(1, m / n))
//     match_rms_adamw  0.2 sqrt(max(m, n)): steps as large as AdamW's
//     spectral         sqrt(m / n)
double muon_ratio(MuonScale scale, int rows, int cols);

// Updates the momentum; `prepared` receives U.
template <class T>
void muon_prepare(const OptimizerConfig& config, double gradient_scale, std::size_t count, const T* gradients,
                  T* momentum, T* prepared);

// Runs the five iterations from `prepared` into `direction`, which must not overlap. With `in_bf16`, X, A and B are
// rounded to BF16 after each product, as on a GPU.
template <class T>
void orthogonalise(bool in_bf16, ConstMatrix<T> prepared, Matrix<T> direction);

// Runs the whole update, matrix by matrix. The bits do not depend on the number of threads.
template <class T>
void muon_update(const OptimizerConfig& config, double lr, double gradient_scale, std::span<const MuonMatrix> matrices,
                 const T* gradients, T* weights, T* momentum);

}  // namespace moescope
