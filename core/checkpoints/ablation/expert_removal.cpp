#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "core/checkpoints/ablation/scans.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

constexpr int kRandomChoices = 5;

// Figures of one expert for each piece of text.
struct Seen {
  std::vector<double> slots, weighted_norms;  // from the pass of the whole model
  std::vector<double> loss_change, divergence;
};
double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Adds slots and weighted norms of each expert in a pass of the whole model.
class OutputWatch : public Predictions {
 public:
  OutputWatch(std::span<const std::int32_t> piece, std::vector<std::vector<Seen>>& layers)
      : Predictions(piece), layers_(layers) {
    for (std::vector<Seen>& experts : layers_)
      for (Seen& watched : experts) {
        watched.slots.push_back(0);
        watched.weighted_norms.push_back(0);
      }
  }
  bool wants_output_norms() const override { return true; }
  void outputs(int, const RoutedTokens& tokens, std::span<const float> norm_TK) override {
    std::vector<Seen>& experts = layers_[layer_++];
    for (std::size_t i = 0; i < norm_TK.size(); ++i) {
      Seen& watched = experts[size(tokens.ids[i])];
      ++watched.slots.back();
      watched.weighted_norms.back() += tokens.mix[i] * static_cast<double>(norm_TK[i]);
    }
  }

 private:
  std::vector<std::vector<Seen>>& layers_;
  std::size_t layer_ = 0;
};

double saliency_of(const Seen& watched, const auto& counts) {
  double slots = 0, norms = 0;
  for (std::size_t piece = 0; piece < watched.slots.size(); ++piece)
    if (counts(piece)) {
      slots += watched.slots[piece];
      norms += watched.weighted_norms[piece];
    }
  return slots > 0 ? norms / slots : 0;
}

// The experts of each layer in the order in which they are removed.
using Order = std::vector<std::vector<int>>;

Order order_by(std::size_t layers, int experts, const auto& key) {
  Order order(layers, std::vector<int>(size(experts)));
  for (std::size_t l = 0; l < layers; ++l) {
    std::iota(order[l].begin(), order[l].end(), 0);
    std::ranges::stable_sort(order[l], {}, [&](int e) { return key(l, e); });
  }
  return order;
}

// Numbers of experts to remove from each layer.
std::vector<int> numbers_to_remove(int experts, int top_k) {
  std::vector<int> numbers;
  for (const int eighths : {1, 2, 3, 4}) {
    const int removed = std::max(1, experts * eighths / 8);
    if (removed <= experts - top_k && (numbers.empty() || removed > numbers.back())) numbers.push_back(removed);
  }
  return numbers;
}

class Removal {
 public:
  Removal(CheckpointModel& model, const std::vector<LabelledText>& texts, const ComparedTexts& which,
          const ScanProgress& progress)
      : model_(model),
        progress_(progress),
        layers_(model.moe_layers()),
        experts_(model.config().experts),
        pieces_(pieces_of(texts, which)),
        numbers_(numbers_to_remove(experts_, model.config().router.config.top_k)),
        watched_(layers_.size(), std::vector<Seen>(size(experts_))) {
    for (const TextPiece& piece : pieces_) {
      const std::string& name = texts[piece.text].name;
      const auto known = std::ranges::find(scan_.domains, name);
      domain_of_.push_back(known - scan_.domains.begin());
      if (known == scan_.domains.end()) scan_.domains.push_back(name);
    }
    std::size_t measured = 0;
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) measured += measures(piece, pieces_.size());
    const std::size_t passes_per_piece = 1 + layers_.size() * size(experts_);
    require_passes(pieces_.size(), passes_per_piece);
    passes_ = to_int(pieces_.size() * passes_per_piece + measured * numbers_.size() * (2 + kRandomChoices));
  }

  ExpertScan run() {
    for (const TextPiece& piece : pieces_)
      if (!without_each(piece.ids)) return {};
    if (!prune()) return {};
    scan_.pieces = to_int(pieces_.size());
    for (const double loss : whole_loss_) scan_.loss += loss / pieces_.size();
    for (std::size_t l = 0; l < layers_.size(); ++l) add_costs(l);
    std::ranges::stable_sort(scan_.experts, {}, [](const ExpertCost& cost) { return cost.divergence.mean; });
    return std::move(scan_);
  }

 private:
  bool go_on() { return progress_(++done_, passes_); }

  bool without_each(std::span<const std::int32_t> piece) {
    OutputWatch whole(piece, watched_);
    model_.forward(piece, 1, std::ssize(piece), whole);
    whole_loss_.push_back(whole.loss / whole.tokens());
    bool goes_on = go_on();
    for (std::size_t l = 0; l < layers_.size(); ++l)
      for (int e = 0; e < experts_ && goes_on; ++e) {
        model_.remove_expert(layers_[l], e);
        const Predictions without = predict(model_, piece);
        model_.restore_experts();
        Seen& watched = watched_[l][size(e)];
        watched.loss_change.push_back((without.loss - whole.loss) / whole.tokens());
        watched.divergence.push_back(divergence_of(whole, without) / whole.tokens());
        goes_on = go_on();
      }
    return goes_on;
  }

  double ranking_divergence(const Seen& watched) const {
    double sum = 0;
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece)
      if (ranks(piece, pieces_.size())) sum += watched.divergence[piece];
    return sum;
  }

  // Returns the change of the loss on each measured piece without the first `removed` experts of each layer; empty if
  // `progress` stopped the scan.
  std::vector<double> changes_without(const Order& order, int removed) {
    for (std::size_t l = 0; l < layers_.size(); ++l)
      for (int i = 0; i < removed; ++i) model_.remove_expert(layers_[l], order[l][size(i)]);
    std::vector<double> changes;
    bool goes_on = true;
    for (std::size_t piece = 0; piece < pieces_.size() && goes_on; ++piece) {
      if (!measures(piece, pieces_.size())) continue;
      const Predictions pruned = predict(model_, pieces_[piece].ids);
      changes.push_back(pruned.loss / pruned.tokens() - whole_loss_[piece]);
      goes_on = go_on();
    }
    model_.restore_experts();
    return goes_on ? changes : std::vector<double>();
  }

  bool prune() {
    const auto all = pieces_.size();
    const Order by_divergence = order_by(
        layers_.size(), experts_, [&](std::size_t l, int e) { return ranking_divergence(watched_[l][size(e)]); });
    const Order by_saliency = order_by(layers_.size(), experts_, [&](std::size_t l, int e) {
      return saliency_of(watched_[l][size(e)], [&](std::size_t piece) { return ranks(piece, all); });
    });
    for (const int removed : numbers_) {
      PrunedModel& model = scan_.pruning.emplace_back(PrunedModel{.removed = removed});
      for (const auto& [order, figure] :
           {std::pair{&by_divergence, &model.by_divergence}, std::pair{&by_saliency, &model.by_saliency}}) {
        const std::vector<double> changes = changes_without(*order, removed);
        if (changes.empty()) return false;
        *figure = figure_of_pieces(changes);
      }
      std::vector<double> random;
      for (int choice = 0; choice < kRandomChoices; ++choice) {
        const RandomStream stream(choice, "pruning");
        const Order order = order_by(layers_.size(), experts_, [&](std::size_t l, int e) {
          return stream.uniform(l * size(experts_) + size(e));
        });
        const std::vector<double> changes = changes_without(order, removed);
        if (changes.empty()) return false;
        random.push_back(sum_of(changes) / changes.size());
      }
      model.random = figure_of_pieces(random);
    }
    return true;
  }

  FigureOfPieces in_domain(const std::vector<double>& by_piece, std::size_t domain) const {
    std::vector<double> domain_values;
    for (std::size_t piece = 0; piece < by_piece.size(); ++piece)
      if (domain_of_[piece] == domain) domain_values.push_back(by_piece[piece]);
    const double none = std::numeric_limits<double>::quiet_NaN();
    return domain_values.empty() ? FigureOfPieces{none, none} : figure_of_pieces(domain_values);
  }

  void add_costs(std::size_t layer) {
    double slots = 0;
    for (const Seen& watched : watched_[layer]) slots += sum_of(watched.slots);
    for (int e = 0; e < experts_; ++e) {
      const Seen& watched = watched_[layer][size(e)];
      ExpertCost& cost = scan_.experts.emplace_back(ExpertCost{.layer = layers_[layer], .expert = e});
      cost.load = sum_of(watched.slots) * experts_ / slots;
      cost.saliency = saliency_of(watched, [](std::size_t) { return true; });
      cost.loss_change = figure_of_pieces(watched.loss_change);
      cost.divergence = figure_of_pieces(watched.divergence);
      for (std::size_t domain = 0; domain < scan_.domains.size(); ++domain)
        cost.loss_by_domain.push_back(in_domain(watched.loss_change, domain));
    }
  }

  CheckpointModel& model_;
  const ScanProgress& progress_;
  std::vector<int> layers_;
  int experts_;
  std::vector<std::size_t> domain_of_;  // of each piece
  std::vector<TextPiece> pieces_;
  std::vector<int> numbers_;
  std::vector<std::vector<Seen>> watched_;
  std::vector<double> whole_loss_;  // of each piece
  int done_ = 0, passes_ = 0;
  ExpertScan scan_;
};

}  // namespace

ExpertScan remove_each_expert(CheckpointModel& model, const std::vector<LabelledText>& texts,
                              const ComparedTexts& which, const ScanProgress& progress) {
  if (model.moe_layers().empty() || model.config().router.config.top_k >= model.config().experts)
    throw std::runtime_error("no expert can be removed: " + std::string(model.moe_layers().empty()
                                                                            ? "no layer has experts"
                                                                            : "every token needs all of them"));
  return Removal(model, texts, which, progress).run();
}

}  // namespace moescope
