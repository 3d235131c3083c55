// A model of a checkpoint: its weights, mapped, and the forward pass that transformers computes, in FP32.
//
//   x = embedding;  per layer: x += attention(rms(x)), x += ffn(rms(x));  logits = head rms(x)
// Legend: T tokens, of sequences that lie one below the other, D dim, V vocabulary. The pass, attention, feed-forwards,
// choice of experts and dispatch are those of training (core/model).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_config.h"
#include "core/checkpoints/stored_experts.h"
#include "core/numerics/gemm_operand.h"
#include "core/tensors/tensor_file.h"

namespace moescope {

// The weights of attention in one layer. Those that its kind does not have are empty.
struct StoredAttention {
  StoredLinear q, output;             // q for plain queries
  StoredLinear q_a, q_b, kv_a, kv_b;  // of latent attention; q_a and q_b for low-rank queries
  StoredLinear k, v;                  // of grouped attention
  std::vector<float> q_norm;          // gains of low-rank queries; of grouped attention for a head or for all of them
  std::vector<float> kv_norm;         // gains of latent keys
  std::vector<float> k_norm;          // gains of grouped keys, as q_norm
  std::vector<float> sinks;           // [heads] of grouped attention
};

// What happens in a pass, as it happens, on the calling thread.
class PassWatch {
 public:
  virtual ~PassWatch() = default;
  // 0: the embedding; i: after layer i, the last one after the final norm; [T, D].
  virtual void hidden(int index, ConstMatrix<float> x) { (void)index, (void)x; }
  virtual void expert_input(int layer, ConstMatrix<float> h) { (void)layer, (void)h; }  // [T, D], before routed()
  virtual void routed(int layer, const RoutedTokens& tokens) { (void)layer, (void)tokens; }
  // Lengths of the chosen experts' outputs before they are mixed, [T, K], as RoutedTokens::ids.
  virtual bool wants_outputs() const { return false; }
  virtual void outputs(int layer, const RoutedTokens& tokens, std::span<const float> norm_TK) {
    (void)layer, (void)tokens, (void)norm_TK;
  }
  // Of the tokens from `first` on, [n, V]; all of them in several calls.
  virtual void logits(Index first, ConstMatrix<float> logits) { (void)first, (void)logits; }
};

// Tokens so far of one sequence, for writing on.
struct KeyValueCache {
  Index tokens = 0;
  std::vector<KeyValues<float>> layers;
};

class CheckpointModel {
 public:
  // A folder with config.json and its .safetensors. Reads norms and biases; all else stays in the files. Throws
  // std::runtime_error "FILE: ..." naming key or tensor. `arithmetic`: of all weights' products but the routers'.
  explicit CheckpointModel(const std::string& folder, Arithmetic arithmetic = Arithmetic::fp32);
  CheckpointModel(const CheckpointModel&) = delete;
  CheckpointModel& operator=(const CheckpointModel&) = delete;

  const CheckpointConfig& config() const { return config_; }
  const TensorFile& file() const { return file_; }
  std::size_t parameters() const { return parameters_; }
  std::size_t stored_bytes() const { return stored_bytes_; }  // of the weights, in the files
  std::vector<int> moe_layers() const;                        // among all layers
  // Returns the memory of a pass over so many tokens, without the pages of the weights.
  std::size_t working_bytes(Index tokens) const;

  // Estimates the time of a text from one layer of each kind and the head, which it times.
  double measured_seconds_per_token() const;

  // `ids` are those of sequences of these lengths, none of them 0; with a cache, of one sequence whose earlier tokens
  // it holds. Throws std::runtime_error: an id is none of the vocabulary's, or a file was shortened meanwhile.
  void forward(std::span<const std::int32_t> ids, std::span<const Index> lengths, PassWatch& watch,
               KeyValueCache* cache = nullptr) const;
  // forward() over sequences that all have the length `length`.
  void forward(std::span<const std::int32_t> ids, Index sequences, Index length, PassWatch& watch,
               KeyValueCache* cache = nullptr) const;

  // Rounds the operands of all weights of one class in a layer, or of the head, layer -1, in passes from now on.
  using Roundings = std::array<OperandRounding, kNumGemmClasses>;
  void set_rounding(int layer, GemmClass gemm_class, const OperandRounding& rounding);
  void round_nothing();
  // No token chooses this expert in passes from now on; the others' mixing weights are then those of the model without
  // it. At least top_k experts must remain.
  void remove_expert(int layer, int expert);
  void restore_experts();

  struct Layer {
    std::vector<float> attention_norm, ffn_norm;
    StoredAttention attention;
    std::unique_ptr<AttentionKind<float>> kind;  // refers to `attention`
    StoredFeedForward dense;                     // empty: it has experts
    StoredExperts moe;
    bool has_experts() const { return dense.empty(); }
  };
  const std::deque<Layer>& layers() const { return layers_; }
  const StoredMatrix& embedding() const { return embedding_; }    // [V, D]
  const std::vector<float>& final_norm() const { return norm_; }  // [D], before the head
  const StoredLinear& head() const { return head_; }              // [V, D]
  // Throws std::runtime_error if a file was shortened while its weights were read.
  void require_pages() const;

 private:
  class Pass;

  CheckpointConfig config_;
  TensorFile file_;
  LostPages lost_;
  StoredMatrix embedding_;
  std::deque<Layer> layers_;  // elements never move
  std::vector<float> norm_;
  StoredLinear head_;
  std::vector<Roundings> roundings_;  // of each layer, and of the head; linear layers refer to them
  std::size_t parameters_ = 0, stored_bytes_ = 0;
};

}  // namespace moescope
