// Attention of a checkpoint's layer, without backward: one class for each kind behind one interface. A kind says how
// queries, keys and values are made; the rest is common.
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

// Of the tokens so far of one sequence, in one layer.
struct KeyValues {
  std::vector<float> k, v;  // [tokens, G dq], [tokens, G dv]
};

struct AttentionCall {
  std::span<const Index> begins;     // first token of each sequence, and T
  std::span<const Index> positions;  // [T] of the new tokens in their sequences
  const RopeAngles& angles;          // of these
  KeyValues* cache = nullptr;        // of the only sequence; takes the new tokens as well. nullptr: there are no others
};

class AttentionKind {
 public:
  AttentionKind(const AttendShape& shape, std::vector<float> sinks, StoredLinear output)
      : shape_(shape), sinks_(std::move(sinks)), output_(std::move(output)) {}
  virtual ~AttentionKind() = default;
  AttentionKind(const AttentionKind&) = delete;
  AttentionKind& operator=(const AttentionKind&) = delete;

  // y_TD from the normed h_TD.
  void forward(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> y) const;
  // Bytes that a token takes in a cache.
  Index cached_bytes() const {
    return shape_.key_heads * (shape_.query_dim + shape_.value_dim) * static_cast<Index>(sizeof(float));
  }

 protected:
  // Fills q_(T, H dq), k_(T, G dq) and v_(T, G dv), turned to their positions.
  virtual void project(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> q, Matrix<float> k,
                       Matrix<float> v) const = 0;
  const AttendShape& shape() const { return shape_; }

 private:
  AttendShape shape_;
  std::vector<float> sinks_;  // [H]; empty: none
  StoredLinear output_;
};

// Queries of H heads, keys and values of G.
struct GroupedWeights {
  StoredLinear q, k, v;
  std::vector<float> q_norm, k_norm;  // of a head or of all of them; empty: none
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
  float clip_;  // 0: none
};

// Multi-head latent attention (core/model/layers/attention.h).
struct LatentWeights {
  StoredLinear q;                     // plain queries
  StoredLinear q_a, q_b, kv_a, kv_b;  // the first two for low-rank ones
  std::vector<float> q_norm, kv_norm;
};
class LatentAttention : public AttentionKind {
 public:
  LatentAttention(const AttendShape& shape, StoredLinear output, LatentWeights weights, const LatentShape& latent)
      : AttentionKind(shape, {}, std::move(output)), w_(std::move(weights)), latent_(latent) {}

 protected:
  void project(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> q, Matrix<float> k,
               Matrix<float> v) const override;

 private:
  LatentWeights w_;
  LatentShape latent_;
};

}  // namespace moescope
