#include "core/model/transformer.h"

#include <algorithm>
#include <cassert>

#include "core/model/layers/linear.h"
#include "core/model/layers/loss.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/threads.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

constexpr std::size_t kEmbeddedTokens = 64;
constexpr std::size_t kColumnSlice = 32;

}  // namespace

template <class T>
Transformer<T>::Transformer(const RunConfig& config, const Parameters<T>& parameters, int sequences, int length,
                            Ranks* ranks)
    : config_(config),
      parameters_(parameters),
      part_(sequences, length, ranks),
      top_k_(config.router.top_k),
      attention_(config.model, part_.sequences, length),
      moe_layer_(config, part_),
      blocks_(size(config.model.n_layers)),
      dense_(size(config.model.n_dense_layers)),
      moe_(size(config.model.n_layers - config.model.n_dense_layers)),
      quant_sums_(size(config.model.n_layers + 1)) {
  for (int i = 0; i < config.router.n_hash_layers; ++i)
    tables_.emplace_back(config.seed, config.model.n_dense_layers + i, config.model.vocab, config.model.n_experts,
                         config.router.top_k);
  given_.resize(tables_.size());
  plan_memory();
}

template <class T>
void Transformer<T>::plan_memory() {
  const ModelConfig& m = config_.model;
  const std::size_t n = tokens(), d = size(m.dim);
  for (Block& block : blocks_) {
    memory_.plan(block.x, n * d);
    memory_.plan(block.middle, n * d);
    memory_.plan(block.h, n * d);
    memory_.plan(block.h_inv, n);
    block.attention.plan(memory_, m, size(part_.sequences), size(part_.length));
  }
  for (auto& dense : dense_) dense.plan(memory_, n, m.dense_inter);
  for (auto& moe : moe_) moe.plan_memory(memory_, config_, part_);
  memory_.plan(last_x_, n * d);
  memory_.plan(last_h_, n * d);
  memory_.plan(last_inv_, n);
  memory_.plan(logits_, n * size(m.vocab));
  memory_.plan(dlogits_, n * size(m.vocab));
  memory_.plan(token_loss_, n);
  memory_.plan(dx_, n * d);
  memory_.plan(dh_, n * d);
  memory_.plan(norm_partial_, size(rms_norm_partials(static_cast<int>(n))) * d);
  dense_scratch_.plan(memory_, n, m.dense_inter);
  attention_ws_.plan(memory_, m, n);
  moe_ws_.plan_memory(memory_, config_, part_);
  memory_.commit();
}

template <class T>
Losses Transformer<T>::forward(const Batch& batch, const std::vector<std::vector<T>>& expert_bias,
                               bool quant_statistics, PhaseClock& clock, std::int64_t step) {
  assert(batch.sequences == sequences() && batch.length == length() && config_.router.top_k == top_k_);
  quant_statistics_ = quant_statistics;
  step_ = step;
  killed_ = killed_masks(config_);
  for (std::size_t i = 0; i < tables_.size(); ++i)
    tables_[i].look_up({batch.input.data() + part_.first_token(), tokens()}, given_[i]);
  precision_.clear();
  for (int layer = 0; layer <= config_.model.n_layers; ++layer)
    precision_.push_back(step_precision(config_, step, layer));
  if (quant_statistics)
    for (LayerSums& sums : quant_sums_) sums = {};
  clock.enter(Phase::other);
  embed(batch);
  for (int layer = 0; layer < config_.model.n_layers; ++layer) {
    Block& block = blocks_[size(layer)];
    clock.enter(Phase::attention);
    attention_.forward(parameters_.weight_view.layers[size(layer)], block.x, block.attention, block.middle,
                       precision_of(layer));
    feed_forward_half(layer, expert_bias, clock);
  }
  clock.enter(Phase::head);
  Losses losses{.ce = head_forward(batch)};
  for (const auto& moe : moe_) {
    losses.aux += moe.router.aux_loss;
    losses.z += moe.router.z_loss;
  }
  clock.enter(Phase::other);
  return losses;
}

template <class T>
void Transformer<T>::feed_forward_half(int layer, const std::vector<std::vector<T>>& expert_bias, PhaseClock& clock) {
  const ModelConfig& m = config_.model;
  const LayerView<T>& w = parameters_.weight_view.layers[size(layer)];
  const int n = static_cast<int>(tokens());
  Block& block = blocks_[size(layer)];
  T* y = block_output(layer);
  const bool dense = layer < m.n_dense_layers;
  clock.enter(dense ? Phase::dense_ffn : Phase::router);
  rms_norm_forward(block.middle, size(m.dim), n, m.dim, w.ffn_norm, m.norm_eps, block.h, block.h_inv);
  if (dense) {
    parallel_copy<T>(block.middle, tokens() * size(m.dim), y);
    feed_forward_forward(w.dense, block.h, n, m.dim, m.dense_inter, dense_[size(layer)], y,
                         {precision_of(layer).of(Gemm::dense_w1, 2), precision_of(layer).of(Gemm::dense_w2)});
    return;
  }
  const std::size_t i = size(moe_index(layer));
  const RoutingLimits limits{
      killed(i), hash_of({static_cast<std::uint64_t>(config_.seed), static_cast<std::uint64_t>(step_), size(layer)}),
      i < given_.size() ? given_[i].data() : nullptr, replayed_ ? (*replayed_)[i].data() : nullptr};
  moe_layer_.forward(w, expert_bias[i].data(), block.h, block.middle, moe_[i], moe_ws_, y, precision_of(layer), clock,
                     limits);
}

template <class T>
void Transformer<T>::backward(const Batch& batch, PhaseClock& clock) {
  clock.enter(Phase::head);
  head_backward();
  for (int layer = config_.model.n_layers - 1; layer >= 0; --layer) {
    feed_forward_half_backward(layer, clock);
    clock.enter(Phase::attention);
    const Block& block = blocks_[size(layer)];
    attention_.backward(parameters_.weight_view.layers[size(layer)], parameters_.gradient_view.layers[size(layer)],
                        block.x, block.attention, attention_ws_, dx_, precision_of(layer));
  }
  clock.enter(Phase::other);
  embed_backward(batch);
}

template <class T>
void Transformer<T>::feed_forward_half_backward(int layer, PhaseClock& clock) {
  const ModelConfig& m = config_.model;
  const LayerView<T>& w = parameters_.weight_view.layers[size(layer)];
  const LayerView<T>& g = parameters_.gradient_view.layers[size(layer)];
  const int n = static_cast<int>(tokens());
  const Block& block = blocks_[size(layer)];
  if (layer < m.n_dense_layers) {
    clock.enter(Phase::dense_ffn);
    feed_forward_backward(w.dense, g.dense, block.h, dx_, n, m.dim, m.dense_inter, dense_[size(layer)], dense_scratch_,
                          dh_, false,
                          {precision_of(layer).of(Gemm::dense_w1, 2), precision_of(layer).of(Gemm::dense_w2)});
  } else {
    const std::size_t i = size(moe_index(layer));
    moe_layer_.backward(w, g, block.h, dx_, moe_[i], moe_ws_, dh_, precision_of(layer), clock);
  }
  rms_norm_backward(dh_, block.middle, size(m.dim), block.h_inv, n, m.dim, w.ffn_norm, dx_, size(m.dim), true,
                    g.ffn_norm, norm_partial_, part_.shard_rows());
}

template <class T>
void Transformer<T>::embed(const Batch& batch) {
  const std::size_t d = size(config_.model.dim);
  const T* table = parameters_.weight_view.embedding;
  T* x = block_output(-1);
  const std::int32_t* input = batch.input.data() + part_.first_token();
  parallel_slices(tokens(), kEmbeddedTokens, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) std::copy_n(table + size(input[t]) * d, d, x + t * d);
  });
}

// Each task owns some columns of the table and adds tokens in order, shard by shard.
template <class T>
void Transformer<T>::embed_backward(const Batch& batch) {
  const std::size_t d = size(config_.model.dim);
  T* gradient = parameters_.gradient_view.embedding;
  const std::int32_t* input = batch.input.data() + part_.first_token();
  const std::size_t vocab = size(config_.model.vocab), rows = size(part_.shard_rows());
  parallel_slices(d, kColumnSlice, [&](std::size_t first, std::size_t last) {
    const std::size_t width = last - first, table = vocab * width;
    thread_local std::vector<T> sums;  // [shard][vocabulary][columns]
    sums.assign(size(part_.shards) * table, T{0});
    for (std::size_t t = 0; t < tokens(); ++t) {
      T* row = sums.data() + t / rows * table + size(input[t]) * width;
      for (std::size_t i = 0; i < width; ++i) row[i] += dx_[t * d + first + i];
    }
    add_pairwise(sums.data(), table, part_.shards, table);
    for (std::size_t v = 0; v < vocab; ++v) std::copy_n(sums.data() + v * width, width, gradient + v * d + first);
  });
}

template <class T>
double Transformer<T>::head_forward(const Batch& batch) {
  const ModelConfig& m = config_.model;
  const int n = static_cast<int>(tokens());
  const ModelView<T>& w = parameters_.weight_view;
  rms_norm_forward(last_x_, size(m.dim), n, m.dim, w.norm, m.norm_eps, last_h_, last_inv_);
  linear_forward(last_h_, n, m.dim, w.output, m.vocab, logits_, false, head_precision());
  return cross_entropy(logits_, batch.target.data() + part_.first_token(), part_, m.vocab, dlogits_, token_loss_);
}

template <class T>
void Transformer<T>::head_backward() {
  const ModelConfig& m = config_.model;
  const int n = static_cast<int>(tokens());
  const ModelView<T>&w = parameters_.weight_view, &g = parameters_.gradient_view;
  linear_backward(dlogits_, n, m.vocab, last_h_, w.output, m.dim, g.output, dh_, false, head_precision());
  rms_norm_backward(dh_, last_x_, size(m.dim), last_inv_, n, m.dim, w.norm, dx_, size(m.dim), false, g.norm,
                    norm_partial_, part_.shard_rows());
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace moescope
