#include <algorithm>
#include <cmath>
#include <limits>

#include "core/model/optimizer.h"

namespace moescope {

template <class T>
std::vector<T> largest_scores_of_heads(const Transformer<T>& model) {
  const ModelConfig& c = model.config().model;
  const std::size_t heads = c.n_heads, all = size(c.n_layers) * heads;
  std::vector<T> largest(all, -std::numeric_limits<T>::infinity());
  for (int layer = 0; layer < c.n_layers; ++layer)
    for (Index sequence = 0; sequence < model.part().sequences; ++sequence)
      for (std::size_t head = 0; head < heads; ++head) {
        T& head_largest = largest[size(layer) * heads + head];
        head_largest = std::max(head_largest, model.largest_scores(layer).at(sequence, head));
      }
  Ranks* ranks = model.part().ranks;
  if (!ranks) return largest;
  std::vector<T> rank_maxima(all * size(ranks->size()));
  ranks->gather_all(largest.data(), all * sizeof(T), rank_maxima.data());
  for (std::size_t i = 0; i < rank_maxima.size(); ++i) largest[i % all] = std::max(largest[i % all], rank_maxima[i]);
  return largest;
}

template <class T>
void clip_queries_and_keys(const ModelConfig& model, std::span<const T> largest_LH, T limit,
                           const ModelView<T>& weights) {
  const Index heads = model.n_heads, nope = model.qk_nope_head_dim, rope = model.qk_rope_head_dim;
  const Index key_rows = nope + model.v_head_dim;
  const auto scale = [](const Matrix<T>& rows, T factor) {
    for (Index i = 0; i < rows.size(); ++i) rows.data[i] *= factor;
  };
  for (Index i = 0; i < std::ssize(largest_LH); ++i) {
    if (!(largest_LH[i] > limit)) continue;
    const LayerView<T>& layer = weights.layers[i / heads];
    const T eta = limit / largest_LH[i], root = std::sqrt(eta);
    const Matrix<T> queries =
        (model.q_lora_rank > 0 ? layer.wq_b : layer.wq).row_block(i % heads * (nope + rope), nope + rope);
    scale(queries.row_block(0, nope), root);
    scale(queries.row_block(nope, rope), eta);
    scale(layer.wkv_b.row_block(i % heads * key_rows, nope), root);
  }
}

template std::vector<float> largest_scores_of_heads(const Transformer<float>&);
template std::vector<double> largest_scores_of_heads(const Transformer<double>&);
template void clip_queries_and_keys(const ModelConfig&, std::span<const float>, float, const ModelView<float>&);
template void clip_queries_and_keys(const ModelConfig&, std::span<const double>, double, const ModelView<double>&);

}  // namespace moescope
