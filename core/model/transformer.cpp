#include "core/model/transformer.h"

#include <algorithm>
#include <cassert>

#include "core/model/layers/linear.h"
#include "core/model/layers/loss.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kEmbeddedTokens = 64;
constexpr Index kColumnSlice = 32;

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
      blocks_(config.model.n_layers),
      dense_(config.model.n_dense_layers),
      moe_(config.model.n_layers - config.model.n_dense_layers),
      quant_sums_(config.model.n_layers + 1) {
  for (int i = 0; i < config.router.n_hash_layers; ++i)
    tables_.emplace_back(config.seed, config.model.n_dense_layers + i, config.model.vocab, config.model.n_experts,
                         config.router.top_k);
  given_ids_.resize(tables_.size());
  plan_memory();
}

template <class T>
void Transformer<T>::NormedRows::plan(Arena<T>& arena, Index tokens, Index dim) {
  arena.plan(x, tokens, dim);
  arena.plan(h, tokens, dim);
  arena.plan(h_inv, tokens);
}

template <class T>
void Transformer<T>::plan_memory() {
  const ModelConfig& m = config_.model;
  const Index n = tokens();
  for (Block& block : blocks_) {
    block.attention_rows.plan(memory_, n, m.dim);
    block.ffn_rows.plan(memory_, n, m.dim);
    attention_.plan(memory_, block.attention);
  }
  for (auto& dense : dense_) dense.plan(memory_, n, m.dense_inter);
  for (auto& moe : moe_) moe.plan_memory(memory_, config_, part_);
  head_rows_.plan(memory_, n, m.dim);
  memory_.plan(logits_, n, m.vocab);
  memory_.plan(dlogits_, n, m.vocab);
  memory_.plan(token_loss_, n);
  memory_.plan(dx_, n, m.dim);
  memory_.plan(dh_, n, m.dim);
  memory_.plan(norm_partial_, rms_norm_partials(n), m.dim);
  dense_scratch_.plan(memory_, n, m.dense_inter);
  attention_ws_.plan(memory_, m, n);
  moe_ws_.plan_memory(memory_, config_, part_);
  memory_.commit();
}

// The forward pass over a batch.
template <class T>
class Transformer<T>::Pass final : public Decoder<T> {
 public:
  Pass(Transformer& model, const Batch& batch, const std::vector<std::vector<T>>& expert_bias, PhaseClock& clock)
      : Decoder<T>(model.config_.model.n_layers, model.config_.model.norm_eps),
        model_(model),
        batch_(batch),
        expert_bias_(expert_bias),
        clock_(clock) {}
  // Returns the mean cross-entropy.
  double run() {
    clock_.enter(Phase::other);
    this->forward_pass();
    clock_.enter(Phase::other);
    return ce_;
  }

 private:
  using typename Decoder<T>::Part;
  using typename Decoder<T>::Rows;

  void embed() override { model_.embed(batch_); }
  Rows begin(int layer, Part part) override {
    const bool dense = layer < model_.config_.model.n_dense_layers;
    const bool rounds = model_.precision_[layer].bf16_activations;
    if (part == Part::head) {
      clock_.enter(Phase::head);
      const NormedRows& rows = model_.head_rows_;
      return {rows.x, model_.weights().norm, rows.h, rows.h_inv, {}, rounds};
    }
    const LayerView<T>& w = model_.weights().layers[layer];
    const NormedRows &first = model_.blocks_[layer].attention_rows, &second = model_.blocks_[layer].ffn_rows;
    if (part == Part::attention) {
      clock_.enter(Phase::attention);
      return {first.x, w.attention_norm, first.h, first.h_inv, second.x, rounds};
    }
    clock_.enter(dense ? Phase::dense_ffn : Phase::router);
    return {second.x, w.ffn_norm, second.h, second.h_inv, model_.block_output(layer), rounds};
  }
  void attention(int layer, const Rows& rows) override {
    parallel_copy<T>(rows.x.data, rows.x.size(), rows.y.data);
    model_.attention_.forward(model_.weights().layers[layer], rows.h, model_.blocks_[layer].attention, rows.y,
                              model_.precision_of(layer));
  }
  void feed_forward(int layer, const Rows& rows) override {
    const int moe = model_.moe_index(layer);
    if (moe >= 0) return model_.moe_forward(layer, expert_bias_[moe], clock_);
    parallel_copy<T>(rows.x.data, rows.x.size(), rows.y.data);
    feed_forward_forward<T>(model_.weights().layers[layer].dense, rows.h, model_.dense_[layer], rows.y,
                            model_.dense_precision(layer));
  }
  void head(const Rows&) override { ce_ = model_.head_forward(batch_); }
  void finish(const Matrix<T>& y) override { model_.store_residual(y); }

  Transformer& model_;
  const Batch& batch_;
  const std::vector<std::vector<T>>& expert_bias_;
  PhaseClock& clock_;
  double ce_ = 0;
};

template <class T>
Losses Transformer<T>::forward(const Batch& batch, const std::vector<std::vector<T>>& expert_bias,
                               bool quant_statistics, PhaseClock& clock, std::int64_t step) {
  assert(fits(batch));
  quant_statistics_ = quant_statistics;
  step_ = step;
  padding_ = batch.padding.empty() ? Mask() : Mask(batch.padding).subspan(part_.first_token(), part_.tokens());
  killed_ = killed_masks(config_);
  for (std::size_t i = 0; i < tables_.size(); ++i)
    tables_[i].look_up({batch.input.data() + part_.first_token(), part_.tokens()}, given_ids_[i]);
  precision_.clear();
  for (int layer = 0; layer <= config_.model.n_layers; ++layer)
    precision_.push_back(step_precision(config_, step, layer));
  round_gains();
  if (quant_statistics)
    for (LayerSums& sums : quant_sums_) sums = {};
  Losses losses{.ce = Pass(*this, batch, expert_bias, clock).run()};
  for (const auto& moe : moe_) {
    losses.aux += moe.router.aux_loss;
    losses.z += moe.router.z_loss;
  }
  return losses;
}

template <class T>
void Transformer<T>::moe_forward(int layer, std::span<const T> expert_bias, PhaseClock& clock) {
  const NormedRows& rows = blocks_[layer].ffn_rows;
  const std::size_t i = moe_index(layer);
  RoutingInputs limits{.killed = killed(i),
                       .noise_seed = hash_of({static_cast<std::uint64_t>(config_.seed),
                                              static_cast<std::uint64_t>(step_), static_cast<std::uint64_t>(layer)}),
                       .microbatches = microbatches()};
  if (i < given_ids_.size()) limits.given_ids = {given_ids_[i].data(), tokens(), top_k_};
  if (!replayed_.empty()) limits.replayed = {replayed_[i].data(), tokens(), top_k_};
  if (!config_.router.count_padding) limits.padding = padding_;
  moe_layer_.forward({weights().layers[layer], moe_[i], moe_ws_, precision_of(layer), clock}, rows.h, rows.x,
                     expert_bias, block_output(layer), limits);
}

template <class T>
void Transformer<T>::backward(const Batch& batch, PhaseClock& clock) {
  clock.enter(Phase::head);
  head_backward();
  store_residual(dx_);
  for (int layer = config_.model.n_layers - 1; layer >= 0; --layer) {
    ffn_backward(layer, clock);
    store_residual(dx_);
    clock.enter(Phase::attention);
    const LayerView<T>&w = weights().layers[layer], &g = parameters_.gradient_view.layers[layer];
    const NormedRows& rows = blocks_[layer].attention_rows;
    attention_.backward(w, rows.h, dx_, blocks_[layer].attention, {g, attention_ws_, dh_}, precision_of(layer));
    rms_norm_backward<T>(dh_, {rows.x, w.attention_norm, rows.h_inv}, dx_, true, norm_gradient(g.attention_norm));
    store_residual(dx_);
  }
  clock.enter(Phase::other);
  embed_backward(batch);
}

template <class T>
void Transformer<T>::ffn_backward(int layer, PhaseClock& clock) {
  const LayerView<T>& w = weights().layers[layer];
  const LayerView<T>& g = parameters_.gradient_view.layers[layer];
  const NormedRows& rows = blocks_[layer].ffn_rows;
  if (layer < config_.model.n_dense_layers) {
    clock.enter(Phase::dense_ffn);
    feed_forward_backward<T>(w.dense, rows.h, dx_, dense_[layer], {g.dense, dense_scratch_, dh_, false},
                             dense_precision(layer));
  } else {
    moe_layer_.backward({w, moe_[moe_index(layer)], moe_ws_, precision_of(layer), clock}, g, rows.h, dx_, dh_);
  }
  rms_norm_backward<T>(dh_, {rows.x, w.ffn_norm, rows.h_inv}, dx_, true, norm_gradient(g.ffn_norm));
}

template <class T>
std::vector<typename Transformer<T>::NamedRows> Transformer<T>::rows_of(int layer) const {
  const Block& block = blocks_[layer];
  const AttentionActivations<T>& a = block.attention;
  std::vector<NamedRows> rows = {{block.attention_rows.x, "residual stream before attention"},
                                 {block.attention_rows.h, "attention_norm"},
                                 {a.q, "wq x"},
                                 {a.kva, "wkv_a x"},
                                 {a.kv, "wkv_b x"},
                                 {a.attended.o, "attention"},
                                 {block.ffn_rows.x, "residual stream after attention"},
                                 {block.ffn_rows.h, "ffn_norm"}};
  if (layer < config_.model.n_dense_layers) {
    rows.emplace_back(dense_[layer].h13, "w1 and w3 x");
    rows.emplace_back(dense_[layer].a, "SwiGLU");
  }
  return rows;
}

template <class T>
std::vector<typename Transformer<T>::NamedRows> Transformer<T>::rows_of_head() const {
  return {{head_rows_.x, "residual stream before the head"}, {head_rows_.h, "norm of the head"}, {logits_, "output x"}};
}

template <class T>
void Transformer<T>::store_residual(const Matrix<T>& rows) const {
  if (precision_.back().bf16_residual) round_all_to_bf16(rows);
}

template <class T>
void Transformer<T>::round_gains() {
  gains_.clear();
  if (!precision_.back().bf16_norm_gains) return;
  rounded_gains_view_ = parameters_.weight_view;
  const auto round = [&](std::span<T>& gain) {
    if (gain.empty()) return;
    gain = gains_.emplace_back(gain.begin(), gain.end());
    round_to_bf16(gain);
  };
  round(rounded_gains_view_.norm);
  for (LayerView<T>& layer : rounded_gains_view_.layers)
    for (std::span<T>* gain :
         {&layer.attention_norm, &layer.ffn_norm, &layer.q_norm, &layer.kv_norm, &layer.latent_norm})
      round(*gain);
}

template <class T>
void Transformer<T>::embed(const Batch& batch) {
  const Matrix<T>& table = weights().embedding;
  const Matrix<T> x = block_output(-1);
  const std::int32_t* input = batch.input.data() + part_.first_token();
  parallel_slices(tokens(), kEmbeddedTokens, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) std::copy_n(table.row(input[t]), table.cols, x.row(t));
  });
  store_residual(x);
}

// Each task computes some columns of the gradient. It adds the tokens of each shard in order, then the shards pairwise.
template <class T>
void Transformer<T>::embed_backward(const Batch& batch) {
  const Matrix<T>& gradient = parameters_.gradient_view.embedding;
  const std::int32_t* input = batch.input.data() + part_.first_token();
  const Index vocab = gradient.rows, rows = part_.shard_rows();
  parallel_slices(gradient.cols, kColumnSlice, [&](Index first, Index last) {
    const Index width = last - first, table = vocab * width;
    thread_local std::vector<T> sums;  // [shard][vocabulary][columns]
    sums.assign(part_.shards * table, T{0});
    for (Index t = 0; t < tokens(); ++t) {
      T* row = sums.data() + t / rows * table + input[t] * width;
      const T* dx = dx_.row(t) + first;
      for (Index i = 0; i < width; ++i) row[i] += dx[i];
    }
    add_pairwise(Matrix<T>(sums.data(), part_.shards, table));
    for (Index v = 0; v < vocab; ++v) std::copy_n(sums.data() + v * width, width, gradient.row(v) + first);
  });
}

template <class T>
double Transformer<T>::head_forward(const Batch& batch) {
  linear_forward<T>(head_rows_.h, weights().output, logits_, false, head_precision());
  return cross_entropy<T>(
      logits_, {std::span(batch.target).subspan(part_.first_token(), part_.tokens()), batch.real_tokens(), padding_},
      part_, dlogits_, token_loss_);
}

template <class T>
void Transformer<T>::head_backward() {
  const ModelView<T>&w = weights(), &g = parameters_.gradient_view;
  linear_backward<T>(dlogits_, head_rows_.h, w.output, g.output, dh_, false, head_precision());
  rms_norm_backward<T>(dh_, {head_rows_.x, w.norm, head_rows_.h_inv}, dx_, false, norm_gradient(g.norm));
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace moescope
