// Grouped-query attention of checkpoints: causal, forward pass. Groups of query heads share a key head and its values.
//
// Legend: H heads, G key heads, dq width of a query, a key and a value.
#pragma once

#include "core/model/layers/attention_kind.h"

namespace moescope {

struct GroupedShape {
  enum class QueryKeyNorm : std::uint8_t { none, head, whole } norm = QueryKeyNorm::none;  // RMS norm of q and k
  int kv_heads = 0, head_dim = 0;
  double clip = 0;     // limit of |q|, |k| and |v|; 0: no limit
  bool sinks = false;  // a learnt score for each head in the softmax, without a value
  double norm_eps = 1e-6;
};

struct GroupedLayers {
  const LinearLayer<float>*q, *k, *v, *output;
  std::span<const float> q_norm, k_norm;  // gains for one head or for all heads; empty if there is no norm
  const float* sinks;                     // [H]; nullptr if there are none
};

class GroupedAttention final : public AttentionKind<float> {
 public:
  // The layers and gains to which `layers` refers must outlive the object.
  GroupedAttention(const AttentionShape& shape, const GroupedShape& grouped, const GroupedLayers& layers)
      : AttentionKind(shape, layers.output, layers.sinks), grouped_(grouped), layers_(layers) {}
  void forward(const AttentionPass<float>& pass, ConstMatrix<float> h, Matrix<float> y) const override;

 private:
  GroupedShape grouped_;
  GroupedLayers layers_;
};

}  // namespace moescope
