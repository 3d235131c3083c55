// Latent attention of the model in training: the forward pass with the master weights (latent_attention.h), and the
// backward pass.
//
// Legend: T = B*S tokens (B sequences of S), D dim; see latent_attention.h. If no operand of attention's GEMMs is in
// FP32, the products between activations are in BF16, as in a training in BF16 whose linear layers are quantized: q, k,
// v, p and the gradients of o and of the scores are rounded before they are multiplied; sums and the softmax stay in
// FP32. Scores are recomputed in the backward pass, so that memory grows with T, not with T*S.
#pragma once

#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/latent_attention.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"

namespace moescope {

// Gradients for one layer's backward pass; shared by all layers.
template <class T>
struct AttentionWorkspace {
  Matrix<T> dq, dkv, d_o;     // shaped like q, kv, o
  Matrix<T> dkva;             // [T, R + dr]
  Matrix<T> dlatent;          // [T, R]
  Matrix<T> dqa, dqa_normed;  // [T, Q]
  Matrix<T> dk_rope;          // [H T, dr] one part per head
  T* norm_partial;

  void plan(Arena<T>& arena, const ModelConfig& config, Index tokens);
};

template <class T>
struct AttentionGradients {
  const LayerView<T>& weights;
  AttentionWorkspace<T>& workspace;  // overwritten
  Matrix<T> dh;                      // [T, D]
};

template <class T>
class Attention {
 public:
  Attention(const ModelConfig& config, int sequences, int length);

  void plan(Arena<T>& arena, AttentionActivations<T>& a) const;
  // y_TD += attention(h_TD).
  void forward(const LayerView<T>& w, ConstMatrix<T> h, AttentionActivations<T>& a, Matrix<T> y,
               const LayerPrecision& precision = {}) const;
  // Computes dL/dh and the weights' gradients from dy_TD.
  void backward(const LayerView<T>& w, ConstMatrix<T> h, ConstMatrix<T> dy, const AttentionActivations<T>& a,
                const AttentionGradients<T>& gradients, const LayerPrecision& precision = {}) const;

 private:
  Index tokens() const { return std::ssize(positions_); }
  void rotate_back(AttentionWorkspace<T>& ws) const;
  void heads_backward(const AttentionActivations<T>& a, AttentionWorkspace<T>& ws, HeadArithmetic arithmetic) const;
  HeadGradients<T> head_gradients(Index sequence, Index head, const AttentionActivations<T>& a,
                                  AttentionWorkspace<T>& ws) const;

  LatentShape latent_;
  AttentionShape shape_;
  Index length_;
  std::vector<Index> begins_, positions_;  // see AttentionPass
  Rope<T> rope_;
};

}  // namespace moescope
