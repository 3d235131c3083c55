// Causal attention of one head over one sequence, with backward: o = softmax(q.k / sqrt(dq)) v.
//
// Scores are recomputed in the backward pass from their log-sum-exp, a block of queries at a time.
// Legend: S tokens of the sequence, dn/dr/dv nope, rope and value head dims, dq = dn + dr.
#pragma once

#include "core/numerics/matrix.h"

namespace moescope {

struct HeadShape {
  int length, nope, rope, value;
  int qk() const { return nope + rope; }
};

// Rows of one head inside the rows of all heads.
template <class T>
struct HeadInputs {
  Matrix<const T> q;               // [S, dq]
  Matrix<const T> k_nope, k_rope;  // [S, dn], [S, dr]
  Matrix<const T> v;               // [S, dv]
};

template <class T>
struct HeadOutputs {
  Matrix<T> o;  // [S, dv]
  T* lse;       // [S] log-sum-exp of each query's scores
  T* largest;   // largest score before the softmax, 1 / sqrt(dq) included
};

template <class T>
struct HeadGradients {
  Matrix<const T> o, d_o;  // [S, dv] o of the forward pass, and its gradient
  const T* lse;            // [S]
  Matrix<T> dq;            // [S, dq]
  Matrix<T> dk_nope, dk_rope, dv;
};

// Multiplies by sgemm or dgemm. `rounds` rounds the factors (q, k, v, p, and the gradients of o and of the scores) to
// BF16 first; sums and the softmax stay in T.
template <class T>
void head_forward(const HeadShape& shape, const HeadInputs<T>& in, bool rounds, const HeadOutputs<T>& out);
template <class T>
void head_backward(const HeadShape& shape, const HeadInputs<T>& in, bool rounds, const HeadGradients<T>& gradients);

// Computes the rounded form on matrix units (tile_products.h). In the backward pass scores are stored key by key, so
// that only one of the operands made of them has to be transposed. Needs has_matrix_unit().
void head_forward_on_units(const HeadShape& shape, const HeadInputs<float>& in, const HeadOutputs<float>& out);
void head_backward_on_units(const HeadShape& shape, const HeadInputs<float>& in, const HeadGradients<float>& gradients);

}  // namespace moescope
