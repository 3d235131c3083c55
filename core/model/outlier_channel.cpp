#include "core/model/outlier_channel.h"

namespace moescope {

template <class T>
void make_outlier_channel(const ModelConfig& model, const ModelView<T>& weights) {
  if (model.outlier_factor == 1) return;
  const auto factor = static_cast<T>(model.outlier_factor);
  const Index channel = model.outlier_channel;
  const auto quieten = [&](const Matrix<T>& weight) {
    for (Index r = 0; r < weight.rows; ++r) weight.row(r)[channel] /= factor;
  };
  for (const LayerView<T>& layer : weights.layers) {
    layer.ffn_norm[channel] *= factor;
    quieten(layer.gate);
    quieten(layer.dense.w13);
    quieten(layer.shared.w13);
    quieten(layer.shared_gate);
    quieten(model.latent_dim > 0 ? layer.latent_down : layer.experts.w13);
  }
}

template void make_outlier_channel<float>(const ModelConfig&, const ModelView<float>&);
template void make_outlier_channel<double>(const ModelConfig&, const ModelView<double>&);

}  // namespace moescope
