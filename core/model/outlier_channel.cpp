#include "core/model/outlier_channel.h"

namespace moescope {

template <class T>
void make_outlier_channel(const ModelConfig& model, const ModelView<T>& weights) {
  if (model.outlier_factor == 1) return;
  const auto factor = static_cast<T>(model.outlier_factor);
  const auto channel = static_cast<std::size_t>(model.outlier_channel), dim = static_cast<std::size_t>(model.dim);
  const auto quieten = [&](T* rows, int count) {
    for (std::size_t r = 0; rows && r < static_cast<std::size_t>(count); ++r) rows[r * dim + channel] /= factor;
  };
  for (const LayerView<T>& layer : weights.layers) {
    layer.ffn_norm[channel] *= factor;
    quieten(layer.gate, model.n_experts);
    quieten(layer.dense.w13, 2 * model.dense_inter);
    quieten(layer.shared.w13, 2 * model.n_shared * model.moe_inter);
    quieten(layer.shared_gate, 1);
    if (model.latent_dim > 0)
      quieten(layer.latent_down, model.latent_dim);
    else
      quieten(layer.experts.w13, 2 * model.n_experts * model.moe_inter);
  }
}

template void make_outlier_channel<float>(const ModelConfig&, const ModelView<float>&);
template void make_outlier_channel<double>(const ModelConfig&, const ModelView<double>&);

}  // namespace moescope
