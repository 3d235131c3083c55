#include "core/checkpoints/ablation/expert_removal.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "core/numerics/size.h"

namespace moescope {
namespace {

// Of one expert, over all pieces.
struct Seen {
  double slots = 0, weighted_norms = 0;
  std::vector<double> loss_change, divergence;  // by piece
};

// Adds what each expert of a layer does in a pass of the whole model.
class OutputWatch : public Predictions {
 public:
  OutputWatch(std::span<const std::int32_t> piece, std::vector<std::vector<Seen>>& layers)
      : Predictions(piece), layers_(layers) {}
  bool wants_outputs() const override { return true; }
  void outputs(int, const RoutedTokens& tokens, std::span<const float> norm_TK) override {
    std::vector<Seen>& experts = layers_[layer_++];
    for (std::size_t i = 0; i < norm_TK.size(); ++i) {
      Seen& seen = experts[size(tokens.ids[i])];
      ++seen.slots;
      seen.weighted_norms += static_cast<double>(tokens.mix[i]) * static_cast<double>(norm_TK[i]);
    }
  }

 private:
  std::vector<std::vector<Seen>>& layers_;
  std::size_t layer_ = 0;
};

ExpertCost cost_of(const Seen& seen, double slots_of_layer, double experts) {
  ExpertCost cost;
  cost.load = seen.slots * experts / slots_of_layer;
  cost.saliency = seen.slots > 0 ? seen.weighted_norms / seen.slots : 0;
  cost.loss_change = figure_of_pieces(seen.loss_change);
  cost.divergence = figure_of_pieces(seen.divergence);
  return cost;
}

}  // namespace

ExpertScan remove_each_expert(CheckpointModel& model, const std::vector<LabelledText>& texts,
                              const ComparedTexts& which, const std::function<bool(int done, int of)>& progress) {
  const std::vector<int> layers = model.moe_layers();
  const int experts = model.config().experts;
  if (layers.empty() || model.config().router.config.top_k >= experts)
    throw std::runtime_error("no expert can be removed: " +
                             std::string(layers.empty() ? "no layer has experts" : "every token needs all of them"));
  const auto pieces = pieces_of(texts, which);
  std::vector<std::vector<Seen>> seen(layers.size(), std::vector<Seen>(size(experts)));
  ExpertScan scan;
  int done = 0;
  const int passes = static_cast<int>(pieces.size() * (1 + layers.size() * size(experts)));
  for (const auto& piece : pieces) {
    OutputWatch whole(piece, seen);
    model.forward(piece, 1, std::ssize(piece), whole);
    scan.loss += whole.loss / whole.tokens() / static_cast<double>(pieces.size());
    bool goes_on = progress(++done, passes);
    for (std::size_t l = 0; l < layers.size() && goes_on; ++l)
      for (int e = 0; e < experts && goes_on; ++e) {
        model.remove_expert(layers[l], e);
        const Predictions without = predict(model, piece);
        model.restore_experts();
        seen[l][size(e)].loss_change.push_back((without.loss - whole.loss) / whole.tokens());
        seen[l][size(e)].divergence.push_back(divergence_of(whole, without) / whole.tokens());
        goes_on = progress(++done, passes);
      }
    if (!goes_on) return {};
    ++scan.pieces;
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    double slots = 0;
    for (const Seen& each : seen[l]) slots += each.slots;
    for (int e = 0; e < experts; ++e) {
      scan.experts.push_back(cost_of(seen[l][size(e)], slots, experts));
      scan.experts.back().layer = layers[l];
      scan.experts.back().expert = e;
    }
  }
  std::ranges::stable_sort(scan.experts, {}, [](const ExpertCost& cost) { return cost.divergence.mean; });
  return scan;
}

}  // namespace moescope
