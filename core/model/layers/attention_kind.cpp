#include "core/model/layers/attention_kind.h"

#include <type_traits>

#include "core/numerics/bf16_rounding.h"

namespace moescope {
namespace {

template <class T>
void append(std::vector<T>& values, const T* from, Index count) {
  values.insert(values.end(), from, from + count);
}

// Adds the new keys and values to the cache, and returns all keys and values in the cache.
template <class T>
ProjectedRows<T> cached(const AttentionShape& shape, const ProjectedRows<T>& rows, KeyValues<T>& cache) {
  const Index shared = rows.shared_key.cols, head_width = shape.query_dim - shared;
  for (Index t = 0; t < rows.q.rows; ++t)
    for (Index g = 0; g < shape.key_heads; ++g) {
      append(cache.k, rows.keys.row(t) + g * rows.key_step, head_width);
      if (shared > 0) append(cache.k, rows.shared_key.row(t), shared);
      append(cache.v, rows.values.row(t) + g * rows.value_step, shape.value_dim);
    }
  const Index key_cols = shape.key_heads * shape.query_dim, value_cols = shape.key_heads * shape.value_dim;
  const Index tokens = std::ssize(cache.k) / key_cols;
  return {.q = {},
          .keys = {cache.k.data(), tokens, key_cols},
          .shared_key = {cache.k.data(), tokens, Index{0}, key_cols},
          .values = {cache.v.data(), tokens, value_cols},
          .key_step = shape.query_dim,
          .value_step = shape.value_dim};
}

template <class T>
void head_pass(HeadArithmetic arithmetic, const HeadInputs<T>& in, const HeadOutputs<T>& out) {
  if constexpr (std::is_same_v<T, float>)
    if (arithmetic == HeadArithmetic::units) return head_forward_on_units(in, out);
  head_forward(in, arithmetic == HeadArithmetic::rounded, out);
}

}  // namespace

template <class T>
HeadInputs<T> ProjectedRows<T>::of_head(const AttentionShape& shape, Index head, Index first, Index count) const {
  const Index key_head = head / (shape.heads / shape.key_heads);
  HeadInputs<T> in;
  if (q.rows > 0) in.q = q.block(first, head * shape.query_dim, count, shape.query_dim);
  in.k_nope = keys.block(first, key_head * key_step, count, shape.query_dim - shared_key.cols);
  in.k_rope = shared_key.row_block(first, count);
  in.v = values.block(first, key_head * value_step, count, shape.value_dim);
  in.scale = static_cast<T>(shape.scale);
  in.window = shape.window;
  return in;
}

template <class T>
void AttentionKind<T>::attend(const AttentionPass<T>& pass, const ProjectedRows<T>& rows, const AttendedRows<T>& to,
                              Matrix<T> y) const {
  ProjectedRows<T> earlier;
  if (pass.cache) earlier = cached(shape_, rows, *pass.cache);
  const Index heads = shape_.heads;
  parallel_for(static_cast<int>(heads * (std::ssize(pass.begins) - 1)), [&](int task) {
    const Index sequence = task / heads, head = task % heads;
    const Index first = pass.begins[sequence];
    const Index count = pass.begins[static_cast<std::size_t>(sequence) + 1] - first;
    HeadInputs<T> in = rows.of_head(shape_, head, first, count);
    if (pass.cache) {
      const Matrix<const T> q = in.q;
      in = earlier.of_head(shape_, head, 0, earlier.keys.rows);
      in.q = q;
    }
    if (sinks_) in.sink = sinks_ + head;
    head_pass<T>(pass.rounding.heads, in,
                 {to.o.block(first, head * shape_.value_dim, count, shape_.value_dim),
                  to.lse + first * heads + head * count, to.largest + task});
  });
  if (pass.rounding.outputs) round_all_to_bf16(to.o);
  output_->forward(to.o, y, true);
}

template struct ProjectedRows<float>;
template struct ProjectedRows<double>;
template class AttentionKind<float>;
template class AttentionKind<double>;

}  // namespace moescope
