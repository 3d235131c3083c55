#include "core/model/moe/latent_experts.h"

#include "core/model/layers/linear.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/bf16_rounding.h"

namespace moescope {

template <class T>
void LatentActivations<T>::plan(Arena<T>& arena, const ModelConfig& config, Index tokens) {
  const Index normed_tokens = config.latent_norm ? tokens : 0;
  arena.plan(rows, tokens, config.latent_dim);
  arena.plan(mixed, tokens, config.latent_dim);
  arena.plan(normed, normed_tokens, config.latent_dim);
  arena.plan(inv, normed_tokens);
}

template <class T>
void LatentWorkspace<T>::plan(Arena<T>& arena, const ModelConfig& config, Index tokens) {
  const Index normed_tokens = config.latent_norm ? tokens : 0;
  arena.plan(drows, tokens, config.latent_dim);
  arena.plan(dmixed, tokens, config.latent_dim);
  arena.plan(dnormed, normed_tokens, config.latent_dim);
  arena.plan(norm_partial, rms_norm_partials(normed_tokens), config.latent_dim);
}

template <class T>
void latent_down(const LayerView<T>& w, ConstMatrix<T> h, LatentActivations<T>& a, const LinearPrecision& precision) {
  linear_forward<T>(h, w.latent_down, a.rows, false, precision);
}

template <class T>
void latent_up(const ModelConfig& config, const LayerView<T>& w, LatentActivations<T>& a, Matrix<T> y,
               const LinearPrecision& precision) {
  if (config.latent_norm) rms_norm_forward<T>(a.mixed, w.latent_norm, config.norm_eps, a.normed, a.inv);
  if (config.latent_norm && precision.bf16_output) round_all_to_bf16(a.normed);
  linear_forward<T>(config.latent_norm ? a.normed : a.mixed, w.latent_up, y, true, precision);
}

template <class T>
void latent_up_backward(const ModelConfig& config, const LayerView<T>& w, const LayerView<T>& g, ConstMatrix<T> dy,
                        const LatentActivations<T>& a, LatentWorkspace<T>& ws, const LinearPrecision& precision) {
  const bool norm = config.latent_norm;
  linear_backward<T>(dy, norm ? a.normed : a.mixed, w.latent_up, g.latent_up, norm ? ws.dnormed : ws.dmixed, false,
                     precision);
  if (norm)
    rms_norm_backward<T>(ws.dnormed, {a.mixed, w.latent_norm, a.inv}, ws.dmixed, false,
                         {g.latent_norm, ws.norm_partial, precision.shard_rows});
}

template <class T>
void latent_down_backward(const LayerView<T>& w, const LayerView<T>& g, ConstMatrix<T> h, const LatentWorkspace<T>& ws,
                          Matrix<T> dh, const LinearPrecision& precision) {
  linear_backward<T>(ws.drows, h, w.latent_down, g.latent_down, dh, false, precision);
}

#define INSTANTIATE(T)                                                                                              \
  template struct LatentActivations<T>;                                                                             \
  template struct LatentWorkspace<T>;                                                                               \
  template void latent_down<T>(const LayerView<T>&, ConstMatrix<T>, LatentActivations<T>&, const LinearPrecision&); \
  template void latent_up<T>(const ModelConfig&, const LayerView<T>&, LatentActivations<T>&, Matrix<T>,             \
                             const LinearPrecision&);                                                               \
  template void latent_up_backward<T>(const ModelConfig&, const LayerView<T>&, const LayerView<T>&, ConstMatrix<T>, \
                                      const LatentActivations<T>&, LatentWorkspace<T>&, const LinearPrecision&);    \
  template void latent_down_backward<T>(const LayerView<T>&, const LayerView<T>&, ConstMatrix<T>,                   \
                                        const LatentWorkspace<T>&, Matrix<T>, const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
