#include "core/model/moe/latent_experts.h"

#include "core/model/layers/linear.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/size.h"

namespace moescope {

template <class T>
void LatentActivations<T>::plan(Arena<T>& arena, const ModelConfig& config, std::size_t tokens) {
  const std::size_t values = tokens * size(config.latent_dim);
  arena.plan(rows, values);
  arena.plan(mixed, values);
  arena.plan(normed, config.latent_norm ? values : 0);
  arena.plan(inv, config.latent_norm ? tokens : 0);
}

template <class T>
void LatentWorkspace<T>::plan(Arena<T>& arena, const ModelConfig& config, std::size_t tokens) {
  const std::size_t latent = size(config.latent_dim);
  arena.plan(drows, tokens * latent);
  arena.plan(dmixed, tokens * latent);
  arena.plan(dnormed, config.latent_norm ? tokens * latent : 0);
  arena.plan(norm_partial, config.latent_norm ? size(rms_norm_partials(static_cast<int>(tokens))) * latent : 0);
}

template <class T>
void latent_down(const ModelConfig& config, const LayerView<T>& w, const T* h, int tokens, LatentActivations<T>& a,
                 const LinearPrecision& precision) {
  linear_forward(h, tokens, config.dim, w.latent_down, config.latent_dim, a.rows, false, precision);
}

template <class T>
void latent_up(const ModelConfig& config, const LayerView<T>& w, int tokens, LatentActivations<T>& a, T* y,
               const LinearPrecision& precision) {
  const int latent = config.latent_dim;
  if (config.latent_norm)
    rms_norm_forward(a.mixed, size(latent), tokens, latent, w.latent_norm, config.norm_eps, a.normed, a.inv);
  linear_forward(config.latent_norm ? a.normed : a.mixed, tokens, latent, w.latent_up, config.dim, y, true, precision);
}

template <class T>
void latent_up_backward(const ModelConfig& config, const LayerView<T>& w, const LayerView<T>& g, const T* dy,
                        int tokens, const LatentActivations<T>& a, LatentWorkspace<T>& ws,
                        const LinearPrecision& precision) {
  const int latent = config.latent_dim;
  const bool norm = config.latent_norm;
  linear_backward(dy, tokens, config.dim, norm ? a.normed : a.mixed, w.latent_up, latent, g.latent_up,
                  norm ? ws.dnormed : ws.dmixed, false, precision);
  if (norm)
    rms_norm_backward(ws.dnormed, a.mixed, size(latent), a.inv, tokens, latent, w.latent_norm, ws.dmixed, size(latent),
                      false, g.latent_norm, ws.norm_partial, precision.shard_rows);
}

template <class T>
void latent_down_backward(const ModelConfig& config, const LayerView<T>& w, const LayerView<T>& g, const T* h,
                          int tokens, const LatentWorkspace<T>& ws, T* dh, const LinearPrecision& precision) {
  linear_backward(ws.drows, tokens, config.latent_dim, h, w.latent_down, config.dim, g.latent_down, dh, false,
                  precision);
}

#define INSTANTIATE(T)                                                                                               \
  template struct LatentActivations<T>;                                                                              \
  template struct LatentWorkspace<T>;                                                                                \
  template void latent_down<T>(const ModelConfig&, const LayerView<T>&, const T*, int, LatentActivations<T>&,        \
                               const LinearPrecision&);                                                              \
  template void latent_up<T>(const ModelConfig&, const LayerView<T>&, int, LatentActivations<T>&, T*,                \
                             const LinearPrecision&);                                                                \
  template void latent_up_backward<T>(const ModelConfig&, const LayerView<T>&, const LayerView<T>&, const T*, int,   \
                                      const LatentActivations<T>&, LatentWorkspace<T>&, const LinearPrecision&);     \
  template void latent_down_backward<T>(const ModelConfig&, const LayerView<T>&, const LayerView<T>&, const T*, int, \
                                        const LatentWorkspace<T>&, T*, const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
