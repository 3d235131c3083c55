#include "core/model/layer_routing.h"

#include "core/model/transformer.h"

namespace moescope {

std::vector<LayerRouting> routing_of(const Transformer<float>& model) {
  std::vector<LayerRouting> layers;
  const ModelConfig& shape = model.config().model;
  const int top_k = model.top_k();
  for (const auto& moe : model.moe()) {
    const std::vector<std::int32_t>& ids = moe.router.ids;
    layers.push_back({shape.n_dense_layers + static_cast<int>(layers.size()),
                      shape.n_experts,
                      top_k,
                      ids,
                      {moe.router.margin, ids.size() / static_cast<std::size_t>(top_k)}});
  }
  return layers;
}

}  // namespace moescope
