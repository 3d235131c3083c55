// What moves the weights after the backward pass: AdamW, Muon, QK-clip, and the rounding of state that is stored in
// BF16.
//
// AdamW with decoupled weight decay on every parameter (Loshchilov and Hutter 2019), gradient clipping, and the
// schedule of the learning rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster/ranks/ranks.h"
#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"
#include "core/model/transformer.h"

namespace moescope {

// Cuts runs into slices, one for each task.
std::vector<ParameterRun> optimizer_slices(std::span<const ParameterRun> runs);

// True if this rank updates these parameters. An expert's parameters are updated on the rank that holds it
// (expert_exchange.h), all others on every rank.
bool is_of_rank(const ParameterRun& run, const Ranks* ranks, int n_experts);

// Returns the L2 norm of the gradient over all slices of the arena `gradients`. Each rank adds up the part of its own
// experts, and rank 0 also the part of the parameters that all ranks share.
template <class T>
double gradient_norm(std::span<const T> gradients, std::span<const ParameterRun> slices, int n_experts,
                     Ranks* ranks = nullptr);

// Returns the learning rate of step t, counted from 0: lr (t + 1) / warmup_steps during the warmup, then the constant
// lr, or a cosine from lr to lr_min at total_steps and lr_min afterwards.
double learning_rate(const OptimizerConfig& config, std::int64_t step);

// Arenas of all parameters (parameters.h), to which the offsets of slices and matrices refer.
template <class T>
struct OptimizerArenas {
  std::span<const T> gradients;
  std::span<T> weights, moment1, moment2;
};
template <class T>
struct AdamWFactors {
  T decay, keep1, take1, keep2, take2, step_size, inv_correction2, eps, gradient_scale;
};
// Updates weights p and moments m and v with g = gradient * gradient_scale and n = step + 1:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p = (1 - lr wd) p - lr / (1 - b1^n) m / (sqrt(v / (1 - b2^n)) + eps)
template <class T>
void adamw_update(const OptimizerConfig& config, std::int64_t step, double lr, double gradient_scale,
                  std::span<const ParameterRun> slices, const OptimizerArenas<T>& arenas);

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
// A matrix that Muon updates, row-major and contiguous in the arenas.
struct MuonMatrix {
  std::size_t offset = 0;
  int rows = 0, cols = 0;
  int expert = -1;  // -1 if not of a routed expert
  const ParameterTensor* tensor = nullptr;

  // Returns the elements in an arena, [rows, cols].
  template <class T>
  Matrix<T> in(std::span<T> arena) const {
    return {arena.data() + offset, rows, cols};
  }
};

bool is_moved_by_muon(const ParameterTensor& tensor);
// Returns the most costly matrices first, so that threads end together.
std::vector<MuonMatrix> muon_matrices(const ModelConfig& config, std::span<const ParameterTensor> tensors);

// Returns the factor of the learning rate of an m x n matrix:
//     original         sqrt(max(1, m / n))
//     match_rms_adamw  0.2 sqrt(max(m, n)): steps as large as AdamW's
//     spectral         sqrt(m / n)
double muon_ratio(MuonScale scale, int rows, int cols);

template <class T>
struct MuonFactors {
  MuonFactors(const OptimizerConfig& config, double scale)
      : momentum(static_cast<T>(config.muon_momentum)),
        take(static_cast<T>(1 - config.muon_momentum)),
        gradient_scale(static_cast<T>(scale)),
        nesterov(config.muon_nesterov) {}
  T momentum, take, gradient_scale;
  bool nesterov;
};
// Updates the momentum M from the gradient G; `prepared` receives U. All are [m, n] without gaps.
template <class T>
void muon_prepare(const MuonFactors<T>& factors, ConstMatrix<T> gradient, Matrix<T> momentum, Matrix<T> prepared);

// Runs the five iterations from `prepared` into `direction`, both [m, n] without gaps, which must not overlap. With
// `in_bf16`, X, A and B are rounded to BF16 after each product, as on a GPU.
template <class T>
void orthogonalise(bool in_bf16, ConstMatrix<T> prepared, Matrix<T> direction);

// Runs the whole update, matrix by matrix; moment1 holds the momentum, moment2 is not used. The bits do not depend on
// the number of threads.
template <class T>
void muon_update(const OptimizerConfig& config, double lr, double gradient_scale, std::span<const MuonMatrix> matrices,
                 const OptimizerArenas<T>& arenas);

// Rounds the state of a training that is stored in BF16: weights and moments, as optimizer.master_format,
// moment1_format and moment2_format say. (Learner rounds expert_bias by router.bias_format.)
//
// A step computes in FP32 and rounds the results that it stores, as PyTorch's fused optimizers do with parameters in
// BF16. The arenas hold the rounded numbers, so that their readers need not know the format.
// Returns one of the two BF16 numbers around `value`: the one farther from zero with a probability equal to the
// distance of `value` from the other one, in units of the last BF16 place. `random` holds 16 random bits. Numbers of
// BF16, infinities and NaN do not change.
float bf16_rounded_stochastically(float value, std::uint32_t random);

// Rounds the weights to nearest before the first step if they are stored in BF16. With a perturbation, each weight that
// is not zero then moves one BF16 unit up or down, as Parameters::perturb() moves a weight in FP32.
template <class T>
void round_initial_weights(const RunConfig& config, std::span<const ParameterRun> runs, Parameters<T>& parameters);

// Rounds the state of the parameters in `slices` after step number `step`.
template <class T>
void round_state(const RunConfig& config, std::int64_t step, std::span<const ParameterRun> slices,
                 Parameters<T>& parameters);

// QK-clip of MuonClip (Kimi K2, arXiv:2507.20534): after the step, queries and keys of a head whose largest score was
// above a limit are scaled down, so that the same input would give the limit. The rule is that of Megatron-LM's
// qk_clip.py with latent attention and alpha = 1/2.
//
// Legend: L layers, H heads.
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
