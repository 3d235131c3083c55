#include "core/checkpoints/ablation/format_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr int kMaxRounds = 4;

// Appends a group with those of the linear layers that exist.
void add_group(std::vector<WeightGroup>& groups, WeightGroup group,
               std::initializer_list<const StoredLinear*> linears) {
  for (const StoredLinear* linear : linears) {
    if (linear->empty()) continue;
    const TensorView& tensor = linear->weight.tensor();
    if (tensor.scales || tensor.holds != TensorView::Holds::values || dtype_bits(tensor.dtype) < 16)
      throw std::runtime_error("'" + printable(tensor.name) + "' is quantized already (" + tensor.type_text() +
                               "): make the plan from the checkpoint in BF16 or F32");
    constexpr std::string_view kEnd = ".weight";
    const std::string& name = tensor.name;
    group.modules.push_back(name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name);
    group.weights += static_cast<double>(linear->inputs()) * linear->outputs();
  }
  if (group.weights > 0) groups.push_back(std::move(group));
}

void add_routed_experts(std::vector<WeightGroup>& groups, int layer, const std::vector<StoredFeedForward>& experts) {
  const auto tensor_of = [&](std::size_t e) { return &experts[e].down.weight.tensor(); };
  const bool stacked = experts.size() > 1 && tensor_of(0) == tensor_of(1);
  WeightGroup group{.layer = layer, .gemm_class = GemmClass::experts};
  for (std::size_t e = 0; e < (stacked ? 1 : experts.size()); ++e) {
    if (!stacked) group.expert = to_int(e);
    add_group(groups, group, {&experts[e].gate, &experts[e].up, &experts[e].down});
  }
  if (stacked) groups.back().weights *= experts.size();
}

std::vector<WeightGroup> groups_of(const CheckpointModel& model) {
  std::vector<WeightGroup> groups;
  for (std::size_t i = 0; i < model.layers().size(); ++i) {
    const CheckpointModel::Layer& layer = model.layers()[i];
    const int index = to_int(i);
    const StoredAttention& a = layer.attention;
    add_group(groups, {.layer = index, .gemm_class = GemmClass::attention},
              {&a.q, &a.q_a, &a.q_b, &a.kv_a, &a.kv_b, &a.k, &a.v, &a.output});
    const auto add_feed_forward = [&](GemmClass gemm_class, const StoredFeedForward& w) {
      add_group(groups, {.layer = index, .gemm_class = gemm_class}, {&w.gate, &w.up, &w.down});
    };
    if (!layer.has_experts()) {
      add_feed_forward(GemmClass::dense_ffn, layer.dense);
      continue;
    }
    add_group(groups, {.layer = index, .gemm_class = GemmClass::router_gate}, {&layer.moe.router});
    if (!layer.moe.shared.empty()) add_feed_forward(GemmClass::shared_experts, layer.moe.shared);
    add_routed_experts(groups, index, layer.moe.experts);
  }
  if (&model.head().weight.tensor() != &model.embedding().tensor()) add_group(groups, {}, {&model.head()});
  return groups;
}

void round_group(CheckpointModel& model, const WeightGroup& group, Recipe format) {
  const OperandRounding rounding{.w = recipe_format(format, Direction::forward, OperandRole::w)};
  if (group.expert >= 0)
    model.set_expert_rounding(group.layer, group.expert, rounding);
  else
    model.set_rounding(group.layer, group.gemm_class, rounding);
}

bool keeps(const PlanRequest& request, const WeightGroup& group) {
  return std::ranges::find(request.kept_classes, group.gemm_class) != request.kept_classes.end();
}

class FormatSearch {
 public:
  FormatSearch(CheckpointModel& model, const std::vector<LabelledText>& texts, const ComparedTexts& which,
               const PlanRequest& request, const ScanProgress& progress)
      : model_(model),
        texts_(texts),
        request_(request),
        progress_(progress),
        pieces_(pieces_of(texts, which)),
        used_(model.moe_layers().size(), std::vector<bool>(size(model.config().experts))),
        groups_(groups_of(model)) {
    require_plan(model, request);
    const std::size_t last = request_.formats.size() - 1;
    for (const WeightGroup& group : groups_) {
      const bool is_kept = keeps(request_, group);
      smallest_.push_back(is_kept ? last : 0);
      largest_.push_back(last);
      changes_per_piece_ += is_kept ? 0 : to_int(last);
    }
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
      if (ranks(piece, pieces_.size())) ranking_.push_back(pieces_[piece]);
      if (measures(piece, pieces_.size())) judging_.push_back(pieces_[piece]);
    }
    require_passes(ranking_.size(), size(kMaxRounds * (changes_per_piece_ + 4)));
  }

  FormatPlan run() {
    std::optional<FormatPlan> plan = search();
    if (!plan || !judge(*plan)) plan = FormatPlan();
    model_.round_nothing();
    return std::move(*plan);
  }

 private:
  using Choice = std::vector<std::size_t>;  // number of the format of each group
  // Divergence of a choice, and its change by each format of each group, nats per token, for each ranking piece.
  struct Changes {
    std::vector<double> base;
    std::vector<std::vector<std::vector<double>>> by_format;  // [groups, formats]; empty: not measured
  };

  Recipe format(std::size_t number) const { return request_.formats[number]; }

  bool go_on() {
    ++done_;
    return progress_(done_, std::max(done_, expected_));
  }

  void apply(const Choice& choice) {
    for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].format = format(choice[g]);
    round_weights(model_, groups_);
  }

  Predictions exact(const TextPiece& piece) {
    model_.round_nothing();
    Predictions found = predict(model_, piece.ids);
    if (!std::isfinite(found.loss))
      throw std::runtime_error("the loss of '" + printable(texts_[piece.text].name) +
                               "' in FP32 is not finite, so that no format can be compared with it");
    return found;
  }

  void mark_used(const Predictions& found) {
    for (std::size_t layer = 0; layer < found.experts.size(); ++layer)
      for (const std::int32_t e : found.experts[layer]) used_[layer][size(e)] = true;
  }

  // Returns nullopt if `progress_` stopped the search.
  std::optional<Changes> changes_of(const Choice& base) {
    Changes changes;
    changes.by_format.assign(groups_.size(), std::vector<std::vector<double>>(request_.formats.size()));
    for (const TextPiece& piece : ranking_) {
      const Predictions in_fp32 = exact(piece);
      mark_used(in_fp32);
      const auto divergence = [&] { return divergence_of(in_fp32, predict(model_, piece.ids)) / in_fp32.tokens(); };
      apply(base);
      const double base_divergence = divergence();
      changes.base.push_back(base_divergence);
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        for (std::size_t f = smallest_[g]; f < request_.formats.size(); ++f) {
          std::vector<double>& change = changes.by_format[g][f];
          if (f == base[g]) {
            change.push_back(0);
            continue;
          }
          round_group(model_, groups_[g], format(f));
          change.push_back(divergence() - base_divergence);
          if (!go_on()) return std::nullopt;
        }
        round_group(model_, groups_[g], format(base[g]));
      }
    }
    return changes;
  }

  // Mean over pieces; infinite if a format gives no finite prediction.
  static double cost_of(const std::vector<double>& change) {
    const double mean = figure_of_pieces(change).mean;
    return std::isfinite(mean) ? mean : std::numeric_limits<double>::max();
  }

  Choice choose(const Changes& changes) const {
    Choice choice = smallest_;
    double bits_left = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      bits_left += groups_[g].weights * (request_.bits * (1 + 1e-12) - bits_of(format(choice[g])));
    std::vector<std::vector<double>> costs(groups_.size(), std::vector<double>(request_.formats.size()));
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t f = smallest_[g]; f < request_.formats.size(); ++f)
        costs[g][f] = cost_of(changes.by_format[g][f]);
    while (true) {
      double best_rate = -1, best_bits = 0;
      std::size_t best_group = 0, best_format = 0;
      for (std::size_t g = 0; g < groups_.size(); ++g)
        for (std::size_t f = choice[g] + 1; f < request_.formats.size(); ++f) {
          const double bits = groups_[g].weights * (bits_of(format(f)) - bits_of(format(choice[g])));
          const double rate = (costs[g][choice[g]] - costs[g][f]) / bits;
          if (bits > bits_left || rate < 0 || rate <= best_rate) continue;
          best_rate = rate;
          best_bits = bits;
          best_group = g;
          best_format = f;
        }
      if (best_rate < 0) return choice;
      choice[best_group] = best_format;
      bits_left -= best_bits;
    }
  }

  // Returns the effects of `choice` on the pieces; empty if `progress_` stopped the search.
  std::optional<PieceFigures> effect_of(const Choice& choice, const std::vector<TextPiece>& pieces) {
    PieceFigures figures;
    for (const TextPiece& piece : pieces) {
      const Predictions in_fp32 = exact(piece);
      apply(choice);
      figures.add(in_fp32, predict(model_, piece.ids));
      if (!go_on()) return std::nullopt;
    }
    return figures;
  }

  std::optional<FormatPlan> search() {
    FormatPlan plan;
    Choice base = largest_;
    double smallest_divergence = std::numeric_limits<double>::infinity();
    while (plan.rounds < kMaxRounds) {
      expected_ += to_int(ranking_.size()) * (changes_per_piece_ + 1);
      const std::optional<Changes> changes = changes_of(base);
      if (!changes) return std::nullopt;
      const Choice choice = choose(*changes);
      const std::optional<PieceFigures> effect = effect_of(choice, ranking_);
      if (!effect) return std::nullopt;
      ++plan.rounds;
      const FigureOfPieces divergence = figure_of_pieces(effect->divergence);
      if (!(divergence.mean < smallest_divergence)) break;
      smallest_divergence = divergence.mean;
      choice_ = choice;
      plan.ranking_divergence = divergence;
      std::vector<double> missed = effect->divergence;  // measured minus summed
      for (std::size_t piece = 0; piece < missed.size(); ++piece) {
        missed[piece] -= changes->base[piece];
        for (std::size_t g = 0; g < groups_.size(); ++g) missed[piece] -= changes->by_format[g][choice[g]][piece];
      }
      const FigureOfPieces difference = figure_of_pieces(missed);
      plan.summed_divergence = divergence.mean - difference.mean;
      if (choice == base || std::abs(difference.mean) <= difference.interval) break;
      base = choice;
    }
    if (choice_.empty()) throw std::runtime_error("no plan within this budget has a finite loss");
    return plan;
  }

  // Measures the chosen plan, and each format in all groups, on the pieces that had no part in the choice.
  bool judge(FormatPlan& plan) {
    expected_ = done_ + to_int(judging_.size() * (1 + request_.formats.size()));
    apply(choice_);
    plan.groups = groups_;
    plan.bits = bits_per_weight(groups_);
    plan.pieces = to_int(judging_.size());
    for (const std::vector<bool>& used : used_) plan.unused_experts += std::ranges::count(used, false);
    const auto effect = [&](const char* name, const Choice& choice, PublishedFit& fit) {
      const std::optional<PieceFigures> figures = effect_of(choice, judging_);
      if (!figures) return false;
      fit = {name, figure_of_pieces(figures->loss_change), figure_of_pieces(figures->divergence)};
      return true;
    };
    for (const TextPiece& piece : judging_) {
      const Predictions in_fp32 = exact(piece);
      plan.loss += in_fp32.loss / in_fp32.tokens() / plan.pieces;
    }
    if (!effect("plan", choice_, plan.effect)) return false;
    if (!std::isfinite(plan.effect.loss_change.mean))
      throw std::runtime_error("the loss of the plan is not finite on the texts that had no part in its choice");
    for (std::size_t f = 0; f < request_.formats.size(); ++f) {
      const Choice uniform(groups_.size(), f);
      if (!effect(recipe_info(format(f)).name, uniform, plan.uniform.emplace_back())) return false;
    }
    return true;
  }

  CheckpointModel& model_;
  const std::vector<LabelledText>& texts_;
  const PlanRequest& request_;
  const ScanProgress& progress_;
  std::vector<TextPiece> pieces_, ranking_, judging_;
  std::vector<std::vector<bool>> used_;  // [MoE layers, experts] whether a ranking piece has a token for the expert
  std::vector<WeightGroup> groups_;
  Choice smallest_, largest_, choice_;
  int changes_per_piece_ = 0, done_ = 0, expected_ = 0;
};

}  // namespace

double bits_of(Recipe format) {
  return bits_per_value(recipe_format(format, Direction::forward, OperandRole::w));
}

double bits_per_weight(const std::vector<WeightGroup>& groups) {
  double bits = 0, weights = 0;
  for (const WeightGroup& group : groups) {
    bits += group.weights * bits_of(group.format);
    weights += group.weights;
  }
  return bits / weights;
}

void require_plan(const CheckpointModel& model, const PlanRequest& request) {
  std::vector<WeightGroup> groups = groups_of(model);
  for (WeightGroup& group : groups)
    group.format = keeps(request, group) ? request.formats.back() : request.formats.front();
  if (bits_per_weight(groups) <= request.bits) return;
  const std::string classes = joined(request.kept_classes, ", ", gemm_class_name);
  throw std::runtime_error(
      fmt::format("{:g} bits per weight are too few: the smallest plan has {:.4g}, {} in all weights{}", request.bits,
                  bits_per_weight(groups), recipe_info(request.formats.front()).name,
                  (classes.empty() ? "" : " except " + classes)));
}

void round_weights(CheckpointModel& model, const std::vector<WeightGroup>& groups) {
  for (const WeightGroup& group : groups) round_group(model, group, group.format);
}

FormatPlan plan_formats(CheckpointModel& model, const std::vector<LabelledText>& texts, const ComparedTexts& which,
                        const PlanRequest& request, const ScanProgress& progress) {
  return FormatSearch(model, texts, which, request, progress).run();
}

}  // namespace moescope
