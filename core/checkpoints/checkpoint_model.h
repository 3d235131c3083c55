// The model of a checkpoint: its weights, mapped from the files, and the forward pass of transformers in FP32.
//
//   x = embedding;  per layer: x += attention(rms(x)), x += ffn(rms(x));  logits = head rms(x)
// Legend: T tokens of all sequences, one sequence after the other, D dim, V vocabulary. The pass, attention,
// feed-forwards, choice of experts and dispatch are those of training (core/model).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_config.h"
#include "core/checkpoints/stored_experts.h"
#include "core/files/tensors/tensor_file.h"
#include "core/files/unreadable.h"
#include "core/numerics/gemm_operand.h"

namespace moescope {

class WeightReader;

// The weights of attention in one layer. Weights that its kind of attention does not have are empty.
struct StoredAttention {
  StoredLinear q, output;             // q for plain queries
  StoredLinear q_a, q_b, kv_a, kv_b;  // latent attention; q_a and q_b for low-rank queries
  StoredLinear k, v;                  // grouped attention
  std::vector<float> q_norm;          // gains of low-rank queries, or of grouped queries: of a head, or of all heads
  std::vector<float> kv_norm;         // gains of latent keys
  std::vector<float> k_norm;          // gains of grouped keys: of a head, or of all heads
  std::vector<float> sinks;           // [heads] grouped attention
};

// Observer of a pass. The pass calls its functions on the thread that called forward().
class PassWatch {
 public:
  virtual ~PassWatch() = default;
  // Residual stream, [T, D]: the embedding if `index` is 0, else the stream after `index` layers; the last one is
  // after the final norm.
  virtual void hidden(int /*index*/, ConstMatrix<float> /*x*/) {}
  // Input of the router and the experts, [T, D]. Called before routed().
  virtual void expert_input(int /*layer*/, ConstMatrix<float> /*h*/) {}
  virtual void routed(int /*layer*/, const RoutedTokens& /*tokens*/) {}
  // True if outputs() is to be called, with the norms of the chosen experts' outputs before they are mixed, [T, K] in
  // the order of RoutedTokens::ids.
  virtual bool wants_output_norms() const { return false; }
  virtual void outputs(int /*layer*/, const RoutedTokens& /*tokens*/, std::span<const float> /*norm_TK*/) {}
  // Takes the logits of the tokens from `first` on, [n, V]. Several calls cover all tokens.
  virtual void logits(Index /*first*/, ConstMatrix<float> /*logits*/) {}
};

// Keys and values of the earlier tokens of one sequence, from which its text is continued.
struct KeyValueCache {
  Index tokens = 0;
  std::vector<KeyValues<float>> layers;
};

class CheckpointModel {
 public:
  // `folder` holds config.json and the .safetensors; all tensors must belong to the model. Reads norms and biases; the
  // matrices stay in the files. Throws std::runtime_error "FILE: ..." with the name of the key or tensor. `arithmetic`:
  // arithmetic of the products with all weights except routers and gates of shared experts, which are computed in FP32.
  explicit CheckpointModel(const std::string& folder, Arithmetic arithmetic = Arithmetic::fp32);
  CheckpointModel(const CheckpointModel&) = delete;
  CheckpointModel& operator=(const CheckpointModel&) = delete;

  const CheckpointConfig& config() const { return config_; }
  const TensorFile& file() const { return file_; }
  std::size_t parameters() const { return parameters_; }
  std::size_t stored_bytes() const { return stored_bytes_; }  // of the weights in the files
  std::vector<int> moe_layers() const;                        // their indices among all layers
  // What the user should know: contradictions between config.json and the tensors, and how they were decided.
  const std::vector<std::string>& notes() const { return notes_; }
  // Returns an estimate of the memory of a pass over `tokens` tokens in bytes, without the pages of the weights.
  std::size_t working_bytes(Index tokens) const;

  // Times the head and one layer of each kind, dense and with experts, and estimates the time of a pass from them.
  double measured_seconds_per_token() const;

  // `ids` holds the tokens of the sequences, whose lengths are `lengths`; no length is 0. With a cache there is one
  // sequence, whose earlier tokens the cache holds and to which `ids` is added. Throws std::runtime_error if an id is
  // not in the vocabulary, or if a file was shortened meanwhile.
  void forward(std::span<const std::int32_t> ids, std::span<const Index> lengths, PassWatch& watch,
               KeyValueCache* cache = nullptr) const;
  // forward() over sequences that all have the length `length`.
  void forward(std::span<const std::int32_t> ids, Index sequences, Index length, PassWatch& watch,
               KeyValueCache* cache = nullptr) const {
    forward(ids, std::vector<Index>(sequences, length), watch, cache);
  }

  // Later passes round the operands of the products with all weights of one class in a layer, or of one of its routed
  // experts; layer -1 is the head.
  using Roundings = std::vector<OperandRounding>;  // of the classes, then of the experts
  void set_rounding(int layer, GemmClass gemm_class, const OperandRounding& rounding);
  void set_expert_rounding(int layer, int expert, const OperandRounding& rounding);
  void round_nothing() {
    for (Roundings& layer_roundings : roundings_) std::ranges::fill(layer_roundings, OperandRounding{});
  }
  // In later passes no token chooses this expert, as if the model did not have it. At least top_k experts must remain.
  void remove_expert(int layer, int expert);
  void restore_experts() {
    for (Layer& layer : layers_) layer.moe.removed.clear();
  }

  struct Layer {
    std::vector<float> attention_norm, ffn_norm;  // [D]
    StoredAttention attention;
    std::unique_ptr<AttentionKind<float>> kind;  // refers to `attention`
    StoredFeedForward dense;                     // empty: the layer has experts
    StoredExperts moe;
    bool has_experts() const { return dense.empty(); }
  };
  const std::deque<Layer>& layers() const { return layers_; }
  const StoredMatrix& embedding() const { return embedding_; }    // [V, D]
  const std::vector<float>& final_norm() const { return norm_; }  // [D], before the head
  const StoredLinear& head() const { return head_; }              // [V, D]
  // Throws std::runtime_error if weights could not be read, because a file was shortened or is damaged.
  void require_pages() const {
    if (const std::string reason = failure_->reason(); !reason.empty()) refuse(file_.path(), reason);
  }

 private:
  class Pass;
  void read_layer(std::size_t layer, WeightReader& weights);  // appends it to layers_
  void read_head(WeightReader& weights, Arithmetic arithmetic);

  CheckpointConfig config_;
  TensorFile file_;
  SharedFailure failure_;
  StoredMatrix embedding_;
  std::deque<Layer> layers_;  // elements never move
  std::vector<float> norm_;
  StoredLinear head_;
  std::vector<std::string> notes_;
  std::vector<Roundings> roundings_;  // of each layer, then of the head; linear layers refer to them
  std::size_t parameters_ = 0, stored_bytes_ = 0;
};

struct WrittenText {
  std::vector<std::int32_t> ids;
  double prefill_s = 0, decode_s = 0;  // times for the given tokens and for the new ones except the first
};
// Always takes the most probable token; among equally probable tokens, the one with the lowest id. `ids` must not be
// empty.
WrittenText continue_text(const CheckpointModel& model, std::span<const std::int32_t> ids, int count);

}  // namespace moescope
