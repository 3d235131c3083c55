// The whole model: embedding, blocks of attention and feed-forward, head and loss, with the backward pass.
//
//   x = embedding;  per block: x += attention(rms(x)), x += ffn(rms(x));  logits = output rms(x)
// Legend: T = B*S tokens of this rank, D dim, V vocabulary. With several ranks, each rank's model holds all weights and
// its part of the batch, and computes its own experts (batch_part.h, expert_exchange.h).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/config/expert_list.h"
#include "core/config/run_config.h"
#include "core/model/decoder.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/feed_forward.h"
#include "core/model/layers/latent_attention.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/phase_clock.h"
#include "core/model/layers/precision.h"
#include "core/model/moe/moe_layer.h"
#include "core/model/text/dataset.h"

namespace moescope {

struct Losses {
  double ce = 0;          // mean cross-entropy, nats per token
  double aux = 0, z = 0;  // losses of the routers with their coefficients, summed over layers
};

// Experts of a rank's tokens, [MoE layer][T, K], in place of the routers' choice. Empty: the routers choose.
using ReplayedExperts = std::span<const std::vector<std::int32_t>>;

template <class T>
class Transformer {
 public:
  // Builds a model for batches of `sequences` x `length` tokens. The references and `ranks` must outlive the object.
  // config's live fields may change between steps, except that a new top_k needs a new Transformer.
  Transformer(const RunConfig& config, const Parameters<T>& parameters, int sequences, int length,
              Ranks* ranks = nullptr);

  const RunConfig& config() const { return config_; }
  int sequences() const { return part_.all_sequences(); }
  int length() const { return part_.length; }
  const BatchPart& part() const { return part_; }
  // Number of microbatches in a batch of this model; 1 if the configured number does not divide the sequences, as with
  // probe texts.
  int microbatches() const { return sequences() % config_.data.microbatches == 0 ? config_.data.microbatches : 1; }
  int top_k() const { return top_k_; }
  // True if the batch has the model's shape, and top_k has not changed.
  bool fits(const Batch& batch) const {
    return batch.sequences == sequences() && batch.length == length() && config_.router.top_k == top_k_;
  }

  // `batch` is the whole batch; a rank uses its part. `expert_bias` is [MoE layer][E]. With `quant_statistics` all
  // quantizers collect statistics. `step` gives every step its own random bits (for stochastic rounding and gate
  // noise).
  Losses forward(const Batch& batch, const std::vector<std::vector<T>>& expert_bias, bool quant_statistics,
                 PhaseClock& clock, std::int64_t step = 0);
  // Lets `tap` capture its operand in later passes; nullptr: no capture.
  void set_tap(OperandTap* tap) { tap_ = tap; }
  // Sets the experts of later passes.
  void set_replayed(ReplayedExperts replayed) { replayed_ = replayed; }
  ReplayedExperts replayed() const { return replayed_; }
  // Writes the gradients of the last forward pass's total loss to the parameters' gradients. Call it once per forward
  // pass.
  void backward(const Batch& batch, PhaseClock& clock);

  // Values of the last forward pass.
  Matrix<const T> logits() const { return logits_; }               // [T, V]
  std::span<const T> token_losses() const { return token_loss_; }  // [T] nats; 0 for padding
  Mask padding() const { return padding_; }                        // [T]
  const std::vector<MoeActivations<T>>& moe() const { return moe_; }
  Matrix<const T> largest_scores(int layer) const {  // attention scores, [B, H] for this rank's B sequences
    return blocks_[layer].attention.attended.largest;
  }
  const std::vector<LayerSums>& quant_sums() const { return quant_sums_; }  // per layer, then the head's
  Mask killed(std::size_t moe) const { return killed_.empty() ? Mask() : Mask(killed_[moe]); }  // [E]
  // Rows and their names, in the order in which the forward pass computes them. rows_of() has a block's rows except
  // those of an MoE layer, and rows_of_head() has the rows after the last block.
  using NamedRows = std::pair<Matrix<T>, const char*>;
  std::vector<NamedRows> rows_of(int layer) const;
  std::vector<NamedRows> rows_of_head() const;
  const std::vector<StepPrecision>& precision() const { return precision_; }  // per layer, then the head's

 private:
  class Pass;
  // Rows x of the residual stream before a sub-layer, or before the head, and h, the rows after the norm.
  struct NormedRows {
    Matrix<T> x, h;      // [T, D]
    std::span<T> h_inv;  // [T] 1 / rms(x)
    void plan(Arena<T>& arena, Index tokens, Index dim);
  };
  struct Block {
    NormedRows attention_rows, ffn_rows;
    AttentionActivations<T> attention;
  };
  void plan_memory();
  Index tokens() const { return part_.tokens(); }
  NormGradient<T> norm_gradient(std::span<T> dweight) const { return {dweight, norm_partial_, part_.shard_rows()}; }
  int moe_index(int layer) const { return layer - config_.model.n_dense_layers; }
  LayerPrecision precision_of(int layer) {
    return {&precision_[layer], layer, quant_statistics_ ? &quant_sums_[layer] : nullptr, tap_, part_.shard_rows(),
            part_.first_token()};
  }
  FeedForwardPrecision dense_precision(int layer) {
    const LayerPrecision precision = precision_of(layer);
    return {precision.linear_precision(Gemm::dense_w1, 2), precision.linear_precision(Gemm::dense_w2)};
  }
  LinearPrecision head_precision() { return precision_of(config_.model.n_layers).linear_precision(Gemm::output); }
  Matrix<T> block_output(int layer) {
    const auto next = static_cast<std::size_t>(layer) + 1;
    return next < blocks_.size() ? blocks_[next].attention_rows.x : head_rows_.x;
  }
  // Weights as the layers read them: norm gains may be rounded copies.
  const ModelView<T>& weights() const { return gains_.empty() ? parameters_.weight_view : rounded_gains_view_; }
  void round_gains();
  // Rounds rows of the residual stream, or of its gradient, to BF16 if the residual stream is stored in BF16.
  void store_residual(const Matrix<T>& rows) const;
  void embed(const Batch& batch);
  void embed_backward(const Batch& batch);
  double head_forward(const Batch& batch);
  void head_backward();
  void moe_forward(int layer, std::span<const T> expert_bias, PhaseClock& clock);
  void ffn_backward(int layer, PhaseClock& clock);

  const RunConfig& config_;
  const Parameters<T>& parameters_;
  BatchPart part_;
  int top_k_;
  bool quant_statistics_ = false;
  OperandTap* tap_ = nullptr;
  ReplayedExperts replayed_;
  std::int64_t step_ = 0;
  Mask padding_;  // [T] of the batch of the last forward pass
  ExpertMasks killed_;
  std::vector<ExpertTable> tables_;                   // tables of the first router.n_hash_layers MoE layers
  std::vector<std::vector<std::int32_t>> given_ids_;  // experts that the tables choose for this batch, [layer][T, K]
  Attention<T> attention_;
  MoeLayer<T> moe_layer_;
  Arena<T> memory_;
  std::vector<Block> blocks_;
  std::vector<FeedForwardActivations<T>> dense_;  // per dense layer
  std::vector<MoeActivations<T>> moe_;            // per MoE layer
  std::vector<StepPrecision> precision_;
  std::vector<std::vector<T>> gains_;  // gains of every norm, rounded to BF16; empty if the parameters' gains are used
  ModelView<T> rounded_gains_view_;
  std::vector<LayerSums> quant_sums_;
  NormedRows head_rows_;
  Matrix<T> logits_, dlogits_;
  Matrix<T> dx_, dh_, norm_partial_;
  std::span<T> token_loss_;
  FeedForwardActivations<T> dense_scratch_;
  AttentionWorkspace<T> attention_ws_;
  MoeWorkspace<T> moe_ws_;
};

}  // namespace moescope
