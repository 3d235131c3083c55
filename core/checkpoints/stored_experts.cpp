#include "core/checkpoints/stored_experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/model/layers/feed_forward.h"
#include "core/model/moe/dispatch.h"
#include "core/model/moe/router.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kRoutedTokens = 64;

// Excludes experts outside of the groups whose best experts have the highest scores.
void mask_groups_by_best(const RouterConfig& config, std::span<const float> scores, std::vector<std::uint8_t>& masked) {
  const std::size_t groups = size(config.n_groups), width = scores.size() / groups;
  std::vector<float> best(groups);
  for (std::size_t g = 0; g < groups; ++g) best[g] = std::ranges::max(scores.subspan(g * width, width));
  RouterConfig group_choice;
  group_choice.top_k = config.n_limited_groups;
  std::vector<std::int32_t> kept_groups(size(config.n_limited_groups));
  choose_experts<float>(group_choice, best, kept_groups);
  masked.assign(scores.size(), 1);
  for (const std::int32_t g : kept_groups)
    std::fill_n(masked.begin() + g * static_cast<std::ptrdiff_t>(width), width, 0);
}

void choose_for_token(const CheckpointRouter& router, const StoredExperts& w, std::size_t t, RoutedTokens& routed) {
  const std::size_t experts = size(routed.experts), top_k = size(routed.top_k);
  const auto row = [t](auto& values, std::size_t width) { return std::span(values).subspan(t * width, width); };
  const std::span<const float> scores = row(routed.scores, experts),
                               judged = router.choose_by_logit ? row(routed.logits, experts) : scores;
  thread_local std::vector<float> choice;
  thread_local std::vector<std::uint8_t> masked;
  choice.assign(judged.begin(), judged.end());
  for (std::size_t e = 0; e < w.choice_bias.size(); ++e) choice[e] += w.choice_bias[e];
  for (std::size_t e = 0; e < w.removed.size(); ++e)
    if (w.removed[e]) choice[e] = std::numeric_limits<float>::lowest();  // a removed expert must not rank its group
  RouterConfig config = router.config;
  const bool masks = router.group_by_best && config.n_groups > 0;
  if (masks) {
    mask_groups_by_best(config, choice, masked);
    config.n_groups = config.n_limited_groups = 0;
    for (std::size_t e = 0; e < w.removed.size(); ++e) masked[e] |= w.removed[e];
  }
  const std::vector<std::uint8_t>& barred = masks ? masked : w.removed;
  routed.margin[t] = choose_experts<float>(config, choice, row(routed.ids, top_k), barred).margin;
  mixing_weights<float>(config, scores, row(routed.ids, top_k), row(routed.mix, top_k));
}

// y_TD += factor sigmoid(h w_g) shared(h).
void add_shared(const StoredExperts& w, ConstMatrix<float> h, const Matrix<float>& y) {
  if (w.shared_gate.empty()) return feed_forward_forward(w.shared, h, y, true);
  const FloatMatrix shared(h.rows, h.cols), gate(h.rows, 1);
  feed_forward_forward(w.shared, h, *shared);
  w.shared_gate.forward(h, *gate);
  parallel_slices(static_cast<std::size_t>(h.rows), kRoutedTokens, [&](std::size_t first, std::size_t last) {
    sigmoid_row(gate->row(first), last - first, gate->row(first));
    for (Index t = first; t < static_cast<Index>(last); ++t)
      add_scaled(w.added_factor * gate->at(t, 0), shared->row(t), h.cols, y.row(t));
  });
}

// Norms of the chosen experts' outputs, [T, K]. `expert_y` has one row for each slot of the plan.
std::vector<float> norms_of(const DispatchPlan& plan, const Matrix<float>& expert_y) {
  std::vector<float> norms(plan.slot_of_choice.size());
  for (Index slot = 0; slot < plan.slots(); ++slot) {
    double squares = 0;
    for (Index i = 0; i < expert_y.cols; ++i) {
      const double value = expert_y.at(slot, i);
      squares += value * value;
    }
    norms[plan.choice_of_slot[slot]] = static_cast<float>(std::sqrt(squares));
  }
  return norms;
}

}  // namespace

void feed_forward_forward(const StoredFeedForward& w, ConstMatrix<float> h, Matrix<float> y, bool accumulate) {
  thread_local AlignedBuffer<float> memory;  // not sublayer_memory(), which holds the rows of experts_forward()
  Arena<float> arena;
  FeedForwardActivations<float> a;
  a.plan(arena, h.rows, w.down.inputs());
  arena.commit(memory.sized(arena.size()));
  feed_forward_forward<float>({&w.gate, w.up.empty() ? nullptr : &w.up, &w.down, false, w.clamp}, h, a, y, accumulate);
}

RoutedTokens route(const CheckpointRouter& router, const StoredExperts& w, ConstMatrix<float> h) {
  RoutedTokens routed;
  routed.experts = to_int(w.router.outputs());
  routed.top_k = router.config.top_k;
  const std::size_t tokens = h.rows, experts = size(routed.experts);
  routed.logits.resize(tokens * experts);
  routed.scores.resize(tokens * experts);
  routed.ids.resize(tokens * size(routed.top_k));
  routed.mix.resize(routed.ids.size());
  routed.margin.resize(tokens);
  w.router.forward(h, {routed.logits.data(), h.rows, w.router.outputs()});
  parallel_slices(tokens, kRoutedTokens, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) {
      const float* logits = routed.logits.data() + t * experts;
      float* scores = routed.scores.data() + t * experts;
      if (router.config.score_func == ScoreFunc::softmax)
        softmax_row(logits, experts, 1.0f, scores);
      else
        sigmoid_row(logits, experts, scores);
      choose_for_token(router, w, t, routed);
    }
  });
  return routed;
}

void experts_forward(const StoredExperts& w, const RoutedTokens& routed, ConstMatrix<float> h, Matrix<float> y,
                     std::vector<float>* output_norms) {
  DispatchPlan plan;
  plan_dispatch(routed.ids, routed.top_k, routed.experts, plan);
  float* rows = sublayer_memory<float>().sized(2 * plan.slots() * h.cols);
  const Matrix<float> x(rows, plan.slots(), h.cols), expert_y(rows + x.size(), plan.slots(), h.cols);
  dispatch_forward<float>(plan, h, x);
  std::vector<int> busy;
  for (int e = 0; e < plan.experts(); ++e)
    if (plan.tokens_of(e) > 0) busy.push_back(e);
  // The largest experts come first, so that no thread begins a long one when the others are done.
  std::ranges::stable_sort(busy, std::ranges::greater(), [&](int e) { return plan.tokens_of(e); });
  parallel_for(to_int(busy.size()), [&](int task) {
    const int e = busy[size(task)];
    const Index first = plan.expert_offset[size(e)], count = plan.tokens_of(e);
    feed_forward_forward(w.experts[size(e)], x.row_block(first, count), expert_y.row_block(first, count));
  });
  if (output_norms) *output_norms = norms_of(plan, expert_y);
  std::vector<float> mix = routed.mix;
  if (w.added_factor != 1)
    for (float& weight : mix) weight *= w.added_factor;
  combine_forward<float>(plan, y, {mix.data(), h.rows, routed.top_k}, expert_y, y);
  if (!w.shared.empty()) add_shared(w, h, y);
}

}  // namespace moescope
