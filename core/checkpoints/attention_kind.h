// Attention of a checkpoint's layer, without a backward pass: one class for each kind behind one interface. A kind
// computes queries, keys and values; the rest is common.
//
// Legend: T new tokens, of sequences that lie one below the other, D dim, H heads, G key heads, dq and dv widths of a
// query and a value.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/checkpoints/attend.h"
#include "core/checkpoints/checkpoint_config.h"
#include "core/checkpoints/rope_angles.h"
#include "core/checkpoints/stored_matrix.h"

namespace moescope {

// Keys and values of the tokens so far of one sequence, in one layer.
struct KeyValues {
  std::vector<float> k, v;  // [tokens, G dq], [tokens, G dv]
};

struct AttentionCall {
  std::span<const Index> begins;     // first token of each sequence, and T
  std::span<const Index> positions;  // [T] positions of the new tokens in their sequences
  const Rope<float>& rope;           // tables for these positions
  KeyValues* cache = nullptr;  // earlier tokens of the only sequence, to which the new ones are added; may be nullptr
};

inline constexpr double kLatentNormEps = 1e-6;  // of transformers' norms inside latent attention, whatever config.json

class AttentionKind {
 public:
  AttentionKind(const AttendShape& shape, std::vector<float> sinks, StoredLinear output)
      : shape_(shape), sinks_(std::move(sinks)), output_(std::move(output)) {}
  virtual ~AttentionKind() = default;
  AttentionKind(const AttentionKind&) = delete;
  AttentionKind& operator=(const AttentionKind&) = delete;

  // Computes y_TD from the normalized h_TD.
  void forward(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> y) const;
  const StoredLinear& output() const { return output_; }
  // Size of a token in a cache, bytes.
  Index cached_bytes() const {
    return shape_.key_heads * (shape_.query_dim + shape_.value_dim) * static_cast<Index>(sizeof(float));
  }

 protected:
  // Fills q_(T, H dq), k_(T, G dq) and v_(T, G dv), rotated by their positions.
  virtual void project(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> q, Matrix<float> k,
                       Matrix<float> v) const = 0;
  const AttendShape& shape() const { return shape_; }

 private:
  AttendShape shape_;
  std::vector<float> sinks_;  // [H]; empty if there are none
  StoredLinear output_;
};

// Weights for queries of H heads, and keys and values of G heads.
struct GroupedWeights {
  StoredLinear q, k, v;
  std::vector<float> q_norm, k_norm;  // gains for a head or for all of them; empty if there is no norm
};
class GroupedAttention : public AttentionKind {
 public:
  GroupedAttention(const AttendShape& shape, std::vector<float> sinks, StoredLinear output, GroupedWeights weights,
                   double norm_eps, double clip)
      : AttentionKind(shape, std::move(sinks), std::move(output)),
        w_(std::move(weights)),
        norm_eps_(norm_eps),
        clip_(static_cast<float>(clip)) {}

 protected:
  void project(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> q, Matrix<float> k,
               Matrix<float> v) const override;

 private:
  GroupedWeights w_;
  double norm_eps_;
  float clip_;  // 0: no clipping
};

// Multi-head latent attention (core/model/layers/attention.h).
struct LatentWeights {
  StoredLinear q;                     // for plain queries
  StoredLinear q_a, q_b, kv_a, kv_b;  // q_a and q_b for low-rank queries
  std::vector<float> q_norm, kv_norm;
};
class LatentAttention : public AttentionKind {
 public:
  LatentAttention(const AttendShape& shape, StoredLinear output, LatentWeights weights, const LatentShape& latent)
      : AttentionKind(shape, {}, std::move(output)), w_(std::move(weights)), latent_(latent) {}
  const LatentWeights& weights() const { return w_; }

 protected:
  void project(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> q, Matrix<float> k,
               Matrix<float> v) const override;

 private:
  LatentWeights w_;
  LatentShape latent_;
};

}  // namespace moescope
