// Forward pass of causal attention, in training and for checkpoints: one interface, with a class for each kind of
// attention. A kind computes queries, keys and values; the base class computes the rest.
//
// Legend: T new tokens of all sequences, one sequence below the other, D dim, H heads, G key heads, each for H / G
// heads; dq and dv widths of a query and of a value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/layers/attention_head.h"
#include "core/model/layers/linear.h"
#include "core/model/layers/rope.h"
#include "core/numerics/threads.h"

namespace moescope {

struct AttentionShape {
  Index heads = 0, key_heads = 0, query_dim = 0, value_dim = 0;
  double scale = 1;  // factor of the scores
  Index window = 0;  // number of keys that a query sees, including its own token; 0: all up to it
};

// Arithmetic of the products between activations. full: in T; rounded: factors are rounded to BF16 and multiplied by
// sgemm; units: factors are rounded to BF16 and multiplied by matrix units.
enum class HeadArithmetic : std::uint8_t { full, rounded, units };

struct AttentionRounding {
  bool norms = false, outputs = false;  // outputs of the norms inside attention, of the heads, are rounded to BF16
  HeadArithmetic heads = HeadArithmetic::full;
};

// Keys and values of the earlier tokens of one sequence, in one layer.
template <class T>
struct KeyValues {
  std::vector<T> k, v;  // [tokens, G dq], [tokens, G dv]
};

template <class T>
struct AttentionPass {
  std::span<const Index> begins;     // first token of each sequence, and T
  std::span<const Index> positions;  // [T] positions of the new tokens in their sequences
  const Rope<T>& rope;               // tables for these positions
  // Keys and values of the earlier tokens of a single sequence. Those of the new tokens are added. May be nullptr.
  KeyValues<T>* cache = nullptr;
  AttentionRounding rounding = {};
};

// Queries, keys and values, rotated by their positions.
template <class T>
struct ProjectedRows {
  Matrix<const T> q;           // [T, H dq]
  Matrix<const T> keys;        // [T, ...] key head g begins at column g key_step
  Matrix<const T> shared_key;  // [T, dr] the end of every head's key; may have no columns
  Matrix<const T> values;      // [T, ...] key head g begins at column g value_step
  Index key_step = 0, value_step = 0;

  // Returns the rows of one head for the tokens [first, first + count).
  HeadInputs<T> head_rows(const AttentionShape& shape, Index head, Index first, Index count) const;
};

// Results of the heads.
template <class T>
struct AttendedRows {
  Matrix<T> o;        // [T, H dv]
  std::span<T> lse;   // [T H] log-sum-exp of each query's scores: [H, S] for each sequence of S tokens, in order
  Matrix<T> largest;  // [sequences, H] largest score before the softmax
};

template <class T>
class AttentionKind {
 public:
  virtual ~AttentionKind() = default;
  // y_TD += attention(h_TD).
  virtual void forward(const AttentionPass<T>& pass, ConstMatrix<T> h, Matrix<T> y) const = 0;

 protected:
  // `sinks_H` are additional scores in the softmax; empty: none. They and `output` [D, H dv] must outlive the object.
  AttentionKind(const AttentionShape& shape, const LinearLayer<T>* output, std::span<const T> sinks = {})
      : shape_(shape), output_(output), sinks_(sinks) {}
  const AttentionShape& shape() const { return shape_; }
  // y_TD += output o with o = softmax(scale q k^T) v.
  void attend(const AttentionPass<T>& pass, const ProjectedRows<T>& rows, const AttendedRows<T>& to, Matrix<T> y) const;

 private:
  AttentionShape shape_;
  const LinearLayer<T>* output_;
  std::span<const T> sinks_;
};

// Calls body(token, its position) on all threads.
inline void for_each_token(std::span<const Index> positions, const auto& body) {
  constexpr std::size_t kTokensOfTask = 64;
  parallel_slices(positions.size(), kTokensOfTask, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) body(static_cast<Index>(t), positions[t]);
  });
}

// Grouped-query attention of checkpoints: causal, forward pass. Groups of query heads share a key head and its values.
//
// Legend: H heads, G key heads, dq width of a query, a key and a value.
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
  std::span<const float> sinks;           // [H]; empty if there are none
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
