// Measurements of a checkpoint by passes over pieces of text. All throw std::runtime_error as CheckpointModel::forward,
// or if no text has two tokens; intervals are Student's over pieces of text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/text_sources.h"
#include "core/frame/model_scans.h"

namespace moescope {

// The predictions for a piece of text, so that passes over the same piece can be compared.
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

// Effects of a change of the model on its predictions, one value for each piece of text.
struct PieceFigures {
  std::vector<double> loss_change, divergence;  // nats per token
  std::vector<double> flips;                    // share of tokens with other experts, mean over layers
  void add(const Predictions& exact, const Predictions& changed);
};

// Whether a piece is used to make a choice, or to measure the loss of what was chosen: every second piece each, so that
// no choice is judged by the text on which it was made. A single piece is used for both.
constexpr bool ranks(std::size_t piece, std::size_t pieces) {
  return pieces < 2 || piece % 2 == 0;
}
constexpr bool measures(std::size_t piece, std::size_t pieces) {
  return pieces < 2 || piece % 2 == 1;
}

// Gets the number of finished passes and of all passes. If it returns false, the scan stops and its result is empty.
using ScanProgress = std::function<bool(int done, int total)>;

// Measures which experts a model could do without, by a pass without each expert, by REAP's saliency, and by passes
// without several experts.
//
// The tokens of a removed expert choose among the other experts, with the mixing weights that the model gives them;
// nothing is trained afterwards. Saliency is S_j = mean over the tokens that chose j of g_j |f_j|, where g is the
// mixing weight and f the expert's output (REAP, arXiv:2510.13999).
//
// Pruning removes an eighth, a quarter, three eighths and half of the experts of every layer, as far as top-k allows:
// those with the smallest divergence, those with the smallest saliency, and five random choices. With several pieces
// the experts are ranked on every second piece and the loss is measured on the other pieces, so that no choice is
// judged by the text on which it was made. Throws also if no layer has experts, or if every token needs all experts.
ExpertScan remove_each_expert(CheckpointModel& model, const std::vector<LabelledText>& texts,
                              const ComparedTexts& which, const ScanProgress& progress);

// Measures the effect of number formats on a model. Each twin is a pass over the same texts with some operands rounded:
// one operand of one class of weights in one layer; one operand of one class in all layers; or all operands. Further
// passes round what each published recipe rounds in its forward pass, except the gate, which stays in FP32.
//
// Each twin is compared with the pass in FP32: the change of the loss and the Kullback-Leibler divergence
// KL(FP32 || rounded) of the next tokens, in nats per token, and the share of tokens whose set of experts changes, mean
// over layers. Intervals show how certain a figure is for similar texts; the rounding itself is deterministic.
PrecisionScan compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                const ComparedTexts& which, Recipe recipe, const ScanProgress& progress);

// Similarity of the experts of each layer: the cosine of the outputs of two experts for the same token, mean over all
// tokens of the texts, whichever experts the router chose for them:
//   S_ij = 1/T sum_t f_i(x_t).f_j(x_t) / (|f_i(x_t)| |f_j(x_t)|)
// f_i(x): output of expert i before it is mixed. The cosine with an output of norm 0 counts as 0. The cosine is taken
// per token as in Lo et al., arXiv:2406.18219. HC-SMoE (arXiv:2410.08589) merges experts by the similarity of their
// outputs.
//
// In each pass every expert computes all tokens, which takes E / K times the products of the chosen experts.
// Throws also if no layer has experts.
ExpertSimilarity similarity_of_experts(const CheckpointModel& model, const std::vector<LabelledText>& texts,
                                       const ComparedTexts& which, const ScanProgress& progress);

}  // namespace moescope
