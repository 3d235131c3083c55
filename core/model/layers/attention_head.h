// Causal attention of one head over one sequence, with backward: o = softmax(scale q k^T) v.
//
// The backward pass recomputes the probabilities from the log-sum-exp of the scores, a block of queries at a time.
// Legend: m tokens of the sequence, n queries, which are those of its last tokens; dn/dr/dv nope, rope and value head
// dims, dq = dn + dr. In training n = m = S.
#pragma once

#include <optional>
#include <span>

#include "core/numerics/matrix.h"

namespace moescope {

// Rows of one head inside the rows of all heads. Only head_forward() reads `window` and `sink`.
template <class T>
struct HeadInputs {
  Matrix<const T> q;               // [n, dq]
  Matrix<const T> k_nope, k_rope;  // [m, dn], [m, dr]
  Matrix<const T> v;               // [m, dv]
  T scale;                         // factor of the scores
  Index window = 0;                // number of keys that a query sees, including its own token; 0: all up to it
  std::optional<T> sink = {};      // an additional score in the softmax, without a value
};

template <class T>
struct HeadOutputs {
  Matrix<T> o;       // [n, dv]
  std::span<T> lse;  // [n] log-sum-exp of each query's scores
  T& largest;        // largest score before the softmax, `scale` included
};

template <class T>
struct HeadGradients {
  Matrix<const T> o, d_o;      // [S, dv] o of the forward pass, and its gradient
  std::span<const T> lse;      // [S]
  Matrix<T> dq;                // [S, dq]
  Matrix<T> dk_nope, dk_rope;  // [S, dn], [S, dr]
  Matrix<T> dv;                // [S, dv]
};

// Multiplies by sgemm or dgemm. `rounds` rounds the factors (q, k, v, p, and the gradients of o and of the scores) to
// BF16 first; sums and the softmax stay in T.
template <class T>
void head_forward(const HeadInputs<T>& in, bool rounds, const HeadOutputs<T>& out);
template <class T>
void head_backward(const HeadInputs<T>& in, bool rounds, const HeadGradients<T>& gradients);

// Computes the rounded form on matrix units (tile_products.h). In the backward pass scores are stored key by key, so
// that only one of the operands made of them has to be transposed. Needs has_matrix_unit().
void head_forward_on_units(const HeadInputs<float>& in, const HeadOutputs<float>& out);
void head_backward_on_units(const HeadInputs<float>& in, const HeadGradients<float>& gradients);

}  // namespace moescope
