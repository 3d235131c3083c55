#include "core/checkpoints/stored_experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/checkpoints/float_matrix.h"
#include "core/model/layers/swiglu.h"
#include "core/model/moe/dispatch.h"
#include "core/model/moe/router.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/size.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kRows = 32;  // rows of a task
constexpr std::size_t kRoutedTokens = 64;

void clamped_row(const float* h13, Index width, float limit, float* a) {
  constexpr float kAlpha = 1.702f;
  thread_local std::vector<float> gate;
  gate.resize(static_cast<std::size_t>(width));
  for (Index i = 0; i < width; ++i) {
    gate[static_cast<std::size_t>(i)] = std::min(h13[2 * i], limit);
    a[i] = kAlpha * gate[static_cast<std::size_t>(i)];
  }
  sigmoid_row(a, gate.size(), a);
  for (Index i = 0; i < width; ++i)
    a[i] = (std::clamp(h13[2 * i + 1], -limit, limit) + 1) * (gate[static_cast<std::size_t>(i)] * a[i]);
}

void gated_unit(const GatedUnit& unit, const Matrix<float>& h13, const Matrix<float>& a) {
  parallel_slices(static_cast<std::size_t>(a.rows), kRows, [&](std::size_t begin, std::size_t end) {
    const Index first = static_cast<Index>(begin), count = static_cast<Index>(end - begin);
    if (!unit.clamped) return swiglu_forward(h13.row_block(first, count), a.row_block(first, count));
    for (Index r = first; r < first + count; ++r) clamped_row(h13.row(r), a.cols, unit.limit, a.row(r));
  });
}

// Excludes experts outside of the groups whose best experts have the highest scores.
void mask_groups_by_best(const RouterConfig& config, std::span<const float> scores, std::vector<std::uint8_t>& masked) {
  const std::size_t groups = size(config.n_groups), width = scores.size() / groups;
  std::vector<float> best(groups);
  for (std::size_t g = 0; g < groups; ++g) best[g] = std::ranges::max(scores.subspan(g * width, width));
  RouterConfig of_groups;
  of_groups.top_k = config.n_limited_groups;
  std::vector<std::int32_t> kept(size(config.n_limited_groups));
  choose_experts<float>(of_groups, best, kept.data());
  masked.assign(scores.size(), 1);
  for (const std::int32_t g : kept) std::fill_n(masked.begin() + g * static_cast<std::ptrdiff_t>(width), width, 0);
}

void choose_for_token(const CheckpointRouter& router, const StoredExperts& w, std::size_t t, RoutedTokens& routed) {
  const std::size_t experts = size(routed.experts), top_k = size(routed.top_k);
  const float *logits = routed.logits.data() + t * experts, *scores = routed.scores.data() + t * experts;
  thread_local std::vector<float> choice;
  thread_local std::vector<std::uint8_t> masked;
  choice.assign(router.choose_by_logit ? logits : scores, (router.choose_by_logit ? logits : scores) + experts);
  for (std::size_t e = 0; e < w.choice_bias.size(); ++e) choice[e] += w.choice_bias[e];
  for (std::size_t e = 0; e < w.removed.size(); ++e)
    if (w.removed[e]) choice[e] = std::numeric_limits<float>::lowest();  // no group is chosen for its sake
  RouterConfig config = router.config;
  const bool masks = router.group_by_best && config.n_groups > 0;
  if (masks) {
    mask_groups_by_best(config, choice, masked);
    config.n_groups = config.n_limited_groups = 0;
    for (std::size_t e = 0; e < w.removed.size(); ++e) masked[e] |= w.removed[e];
  }
  const std::vector<std::uint8_t>& barred = masks ? masked : w.removed;
  std::int32_t* ids = routed.ids.data() + t * top_k;
  routed.margin[t] = choose_experts<float>(config, choice, ids, barred.empty() ? nullptr : barred.data());
  mixing_weights(config, scores, ids, routed.mix.data() + t * top_k);
}

// Computes y_TD *= sigmoid(h w_g).
void gate_rows(const StoredLinear& gate, ConstMatrix<float> h, const Matrix<float>& y) {
  const FloatMatrix logit(h.rows, 1);
  linear_forward(h, gate, *logit);
  for (Index t = 0; t < h.rows; ++t) {
    float share = 0;
    sigmoid_row(logit->row(t), 1, &share);
    for (Index i = 0; i < y.cols; ++i) y.at(t, i) *= share;
  }
}

// Lengths of the rows of the slots, by choice: [T, K].
std::vector<float> norms_of(const DispatchPlan& plan, const Matrix<float>& expert_y) {
  std::vector<float> norms(plan.slot_of_choice.size());
  for (Index slot = 0; slot < plan.slots(); ++slot) {
    double squares = 0;
    for (Index i = 0; i < expert_y.cols; ++i) {
      const auto value = static_cast<double>(expert_y.at(slot, i));
      squares += value * value;
    }
    norms[static_cast<std::size_t>(plan.choice_of_slot[static_cast<std::size_t>(slot)])] =
        static_cast<float>(std::sqrt(squares));
  }
  return norms;
}

}  // namespace

void feed_forward_forward(const StoredFeedForward& w, const GatedUnit& unit, ConstMatrix<float> h, Matrix<float> y) {
  const Index width = w.down.inputs();
  const FloatMatrix h13(h.rows, 2 * width), a(h.rows, width);
  if (w.up.empty()) {
    linear_forward(h, w.gate, *h13);
  } else {
    linear_forward(h, w.gate, h13->col_block(0, width));
    linear_forward(h, w.up, h13->col_block(width, width));
  }
  gated_unit(unit, *h13, *a);
  linear_forward(*a, w.down, y);
}

RoutedTokens route(const CheckpointRouter& router, const StoredExperts& w, ConstMatrix<float> h) {
  RoutedTokens routed;
  routed.experts = static_cast<int>(w.router.outputs());
  routed.top_k = router.config.top_k;
  const auto tokens = static_cast<std::size_t>(h.rows), experts = size(routed.experts);
  routed.logits.resize(tokens * experts);
  routed.scores.resize(tokens * experts);
  routed.ids.resize(tokens * size(routed.top_k));
  routed.mix.resize(routed.ids.size());
  routed.margin.resize(tokens);
  linear_forward(h, w.router, {routed.logits.data(), h.rows, w.router.outputs()});
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
  const FloatMatrix x(plan.slots(), h.cols), expert_y(plan.slots(), h.cols);
  dispatch_forward<float>(plan, h, *x);
  std::vector<int> busy;
  for (int e = 0; e < plan.experts(); ++e)
    if (plan.tokens_of(e) > 0) busy.push_back(e);
  // The largest experts come first, so that no thread begins a long one when the others are done.
  std::ranges::stable_sort(busy, std::ranges::greater(), [&](int e) { return plan.tokens_of(e); });
  parallel_for(static_cast<int>(busy.size()), [&](int task) {
    const int e = busy[size(task)];
    const Index first = plan.expert_offset[size(e)], count = plan.tokens_of(e);
    feed_forward_forward(w.experts[size(e)], w.unit, x->row_block(first, count), expert_y->row_block(first, count));
  });
  if (output_norms) *output_norms = norms_of(plan, *expert_y);
  FloatMatrix shared(w.shared.empty() ? 0 : h.rows, h.cols);
  if (!w.shared.empty()) {
    feed_forward_forward(w.shared, w.unit, h, *shared);
    if (!w.shared_gate.empty()) gate_rows(w.shared_gate, h, *shared);
  }
  combine_forward<float>(plan, w.shared.empty() ? Matrix<float>{} : *shared, routed.mix.data(), *expert_y, y);
}

}  // namespace moescope
