// The predictions of a checkpoint for a piece of text, so that passes over the same piece can be compared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/text_sources.h"

namespace moescope {

class Predictions : public PassWatch {
 public:
  explicit Predictions(std::span<const std::int32_t> piece) : ids_(piece) {}
  void routed(int layer, const RoutedTokens& tokens) override;
  void logits(Index first, ConstMatrix<float> logits) override;

  double tokens() const { return ids_.size() - 1; }  // number of predicted tokens
  double loss = 0;                                   // nats, sum over the predicted tokens
  std::vector<float> log_p;                          // [tokens, V]
  std::vector<std::vector<std::int32_t>> experts;    // of each MoE layer: [T, K]
  int top_k = 0;

 private:
  std::span<const std::int32_t> ids_;
};
Predictions predict(const CheckpointModel& model, std::span<const std::int32_t> piece);

// Returns KL(exact || other) of the predictions in nats, the sum over the tokens.
double divergence_of(const Predictions& exact, const Predictions& other);

}  // namespace moescope
