#include "core/model/moe/router.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/model/layers/linear.h"
#include "core/model/moe/bias_rules.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/elementary.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/rng.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kRouterTokens = 64;
constexpr double kNormFloor = 1e-20;  // keeps mixing weights finite if all scores of a token are zero

// sqrt(ln(1 + e^x)), computed in double and rounded to float.
template <class T>
void sqrtsoftplus_row(const T* in, std::size_t n, T* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(in[i]);
    out[i] = std::sqrt(static_cast<T>(std::max(x, 0.0) + ordered_log1p(ordered_exp(-std::fabs(x)))));
  }
}

template <class T>
void score_rows(ScoreFunc func, ConstMatrix<T> logits, bool need_lse, Matrix<T> scores, std::span<T> lse) {
  for (Index r = 0; r < logits.rows; ++r) {
    const T* z = logits.row(r);
    T* s = scores.row(r);
    if (func == ScoreFunc::softmax || need_lse) lse[r] = softmax_row(z, logits.cols, T{1}, s);
    if (func == ScoreFunc::sigmoid) sigmoid_row(z, logits.cols, s);
    if (func == ScoreFunc::sqrtsoftplus) sqrtsoftplus_row(z, logits.cols, s);
  }
}

// Writes the indices of the largest `count` values that `allowed` accepts to `best`, largest first; equal values keep
// index order. `best` has room for `count` indices. Returns the number of written indices.
template <class T>
int best_indices(std::span<const T> values, int count, const auto& allowed, std::int32_t* best) {
  int found = 0;
  for (std::int32_t e = 0; e < std::ssize(values); ++e) {
    if (!allowed(e)) continue;
    const T value = values[e];
    if (found == count && !(value > values[best[found - 1]])) continue;
    int at = found < count ? found++ : count - 1;
    for (; at > 0 && value > values[best[at - 1]]; --at) best[at] = best[at - 1];
    best[at] = e;
  }
  return found;
}

// Marks the groups whose experts can be chosen.
template <class T>
void keep_best_groups(const RouterConfig& config, std::span<const T> choice, Mask killed,
                      std::vector<std::uint8_t>& keep) {
  const std::size_t groups = config.n_groups, width = choice.size() / groups;
  thread_local std::vector<T> group_score;
  thread_local std::vector<std::size_t> living;
  thread_local std::vector<std::int32_t> best;
  group_score.assign(groups, T{0});
  living.assign(groups, width);
  for (std::size_t g = 0; g < groups; ++g) {
    T first = -std::numeric_limits<T>::infinity(), second = first;
    for (std::size_t e = g * width; e < (g + 1) * width; ++e) {
      if (is_set(killed, e)) {
        --living[g];
        continue;
      }
      second = std::max(second, std::min(first, choice[e]));
      first = std::max(first, choice[e]);
    }
    group_score[g] = living[g] > 1 ? first + second : first;
  }
  best.resize(config.n_limited_groups);
  const int kept_groups = best_indices<T>(
      group_score, config.n_limited_groups, [&](std::int32_t g) { return living[g] > 0; }, best.data());
  keep.assign(groups, 0);
  for (int i = 0; i < kept_groups; ++i) keep[best[i]] = 1;
}

// Returns how many of the tokens [first, first + count) are not padding.
std::size_t real_tokens(Mask padding, std::size_t first, std::size_t count) {
  return padding.empty() ? count : count - std::ranges::count(padding.subspan(first, count), std::uint8_t{1});
}

// Returns the divisor that turns a token's scores into shares of the experts: 1 for softmax, whose scores already sum
// to 1.
template <class T>
T share_divisor(const RouterConfig& config, const T* scores, Index experts) {
  if (config.score_func == ScoreFunc::softmax) return T{1};
  T sum = static_cast<T>(kNormFloor);
  for (Index e = 0; e < experts; ++e) sum += scores[e];
  return sum;
}

// Computes a token's share of each expert for the auxiliary loss; valid until the thread's next call.
template <class T>
const T* aux_shares(const RouterConfig& config, const T* scores, Index experts) {
  thread_local std::vector<T> shares;
  shares.resize(experts);
  if (config.fault_aux_loss == AuxFault::softmax_twice) {
    softmax_row(scores, experts, T{1}, shares.data());
    return shares.data();
  }
  const T divisor = share_divisor(config, scores, experts);
  for (Index e = 0; e < experts; ++e) shares[e] = scores[e] / divisor;
  return shares.data();
}

// Turns a group's counts into f and returns sum_e f_e P_e.
template <class T>
double group_loss(const RouterConfig& config, std::size_t tokens, std::span<T> load, std::span<const double> share) {
  double loss = 0;
  for (std::size_t e = 0; e < load.size(); ++e) {
    load[e] *= static_cast<T>(static_cast<double>(load.size()) / (config.top_k * tokens));
    loss += static_cast<double>(load[e]) * share[e] / tokens;
  }
  return loss;
}

// A layer's router in one forward pass.
template <class T>
class RouterPass {
 public:
  RouterPass(const RouterConfig& config, const BatchPart& part, const RouterInputs<T>& in, const RoutingInputs& limits,
             RouterActivations<T>& activations)
      : config_(config),
        part_(part),
        in_(in),
        limits_(limits),
        noise_(limits.noise_seed, "router.gate_noise"),
        a_(activations) {
    if (config.force_balance) living_ = living_experts(experts_, limits.killed);
  }

  void route() {
    const bool levels = config_.balance_rule == BalanceRule::quantile_sequence && limits_.given_ids.empty();
    if (levels) {
      parallel_slices(a_.scores.rows, kRouterTokens, [&](Index first, Index last) { score(first, last); });
      level_sequences<T>(config_, part_, a_.scores, limits_.killed, a_.levelled_scores);
    } else {
      a_.levelled_scores.clear();
    }
    parallel_slices(a_.scores.rows, kRouterTokens, [&](Index first, Index last) {
      if (!levels) score(first, last);
      for (Index t = first; t < last; ++t) {
        if (limits_.given_ids.empty() && !config_.force_balance)
          route_token(t);
        else
          give_experts(t);
        if (!limits_.replayed.empty()) take_experts(limits_.replayed, t);
      }
    });
    a_.not_dropped.clear();
    a_.padding = limits_.padding;
    a_.counted = part_.ranks ? part_.all_tokens : real_tokens(a_.padding, 0, part_.all_tokens);
    if (config_.token_drop != TokenDrop::none) drop_tokens();
    count_experts(a_.ids, a_.tokens_per_expert);
    a_.rows_per_expert = a_.tokens_per_expert;
    if (!a_.not_dropped.empty()) count_experts(a_.not_dropped, a_.rows_per_expert);
    a_.aux_loss = config_.aux_mode == AuxMode::none ? 0 : auxiliary_loss();
    a_.z_loss = config_.z_coeff > 0 ? z_loss() : 0;
  }

 private:
  void score(Index first, Index last) {
    const Index count = last - first;
    score_rows<T>(config_.score_func, a_.logits.row_block(first, count), config_.z_coeff > 0,
                  a_.scores.row_block(first, count), a_.lse.subspan(first, count));
  }

  // Returns a token's scores from its logits plus noise: the E random numbers that belong to this token of the whole
  // batch.
  const T* noisy_scores(Index t) const {
    thread_local std::vector<T> z, scores;
    z.resize(experts_);
    scores.resize(experts_);
    const std::size_t first = (part_.first_token() + t) * experts_;
    for (Index e = 0; e < experts_; ++e)
      z[e] = a_.logits.row(t)[e] + static_cast<T>(config_.gate_noise * noise_.normal(first + e));
    T lse[1];
    score_rows<T>(config_.score_func, {z.data(), 1, experts_}, false, {scores.data(), 1, experts_}, lse);
    return scores.data();
  }

  std::span<std::int32_t> ids_of(Index t) const { return std::span(a_.ids).subspan(t * config_.top_k, config_.top_k); }

  // Computes choice and mixing weights of token t.
  void route_token(Index t) {
    const T* judged = config_.gate_noise > 0 ? noisy_scores(t) : a_.judged(config_).row(t);
    thread_local std::vector<T> choice;
    choice.resize(experts_);
    for (Index e = 0; e < experts_; ++e) choice[e] = judged[e] + in_.expert_bias[e];
    const auto [margin, cutoff] = choose_experts<T>(config_, choice, ids_of(t), limits_.killed);
    a_.margin[t] = margin;
    a_.cutoff[t] = cutoff;
    mix_token(t);
  }

  void mix_token(Index t) { mixing_weights<T>(config_, a_.scores.values(t), ids_of(t), a_.mix.values(t)); }

  // Gives token t the experts `chosen`, mixed by the token's own scores.
  void take_experts(const Matrix<const std::int32_t>& chosen, Index t) {
    std::ranges::copy(chosen.values(t), ids_of(t).begin());
    mix_token(t);
  }

  // Gives token t its given experts, or under forced balance living experts round-robin. Margin and cutoff are NaN.
  void give_experts(Index t) {
    if (limits_.given_ids.empty()) {
      for (int j = 0; j < config_.top_k; ++j)
        ids_of(t)[j] = living_[((part_.first_token() + t) * config_.top_k + j) % living_.size()];
      mix_token(t);
    } else {
      take_experts(limits_.given_ids, t);
    }
    a_.margin[t] = a_.cutoff[t] = std::numeric_limits<T>::quiet_NaN();
  }

  // Drops the copies beyond the capacity of their experts, in each microbatch over all ranks.
  void drop_tokens() {
    const std::size_t own_copies = a_.ids.size(), all = part_.all_tokens * config_.top_k;
    std::vector<std::int32_t> ids = a_.ids;
    std::vector<T> mix(a_.mix.data, a_.mix.data + own_copies);
    if (part_.ranks) {
      ids.resize(all);
      mix.resize(all);
      part_.ranks->gather_all(a_.ids.data(), own_copies * sizeof(std::int32_t), ids.data());
      part_.ranks->gather_all(a_.mix.data, own_copies * sizeof(T), mix.data());
    }
    const std::size_t tokens = part_.all_tokens / limits_.microbatches;
    for (int m = 0; m < limits_.microbatches; ++m) {
      const std::size_t first = m * tokens, first_copy = first * config_.top_k;
      drop_beyond_capacity<T>(config_.token_drop, to_int(experts_),
                              expert_capacity(real_tokens(a_.padding, first, tokens), config_.top_k, to_int(experts_),
                                              config_.capacity_factor),
                              {ids.data() + first_copy, tokens, config_.top_k},
                              {mix.data() + first_copy, tokens, config_.top_k},
                              a_.padding.empty() ? Mask() : a_.padding.subspan(first, tokens));
    }
    const std::size_t first = part_.first_token() * config_.top_k;
    std::copy_n(mix.data() + first, own_copies, a_.mix.data);
    a_.not_dropped.assign(ids.begin() + first, ids.begin() + first + own_copies);
  }

  // Counts the slots of each expert in the whole batch, [E]. router.fault_recount doubles the counts.
  void count_experts(const std::vector<std::int32_t>& ids, std::vector<std::uint32_t>& counts) const {
    std::ranges::fill(counts, 0u);
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= 0 && !is_set(a_.padding, i / config_.top_k)) ++counts[ids[i]];
    sum_over_ranks(part_.ranks, std::span(counts));
    if (config_.fault_recount)
      for (std::uint32_t& count : counts) count *= 2;
  }

  // Sums over the tokens [first, last) without padding: slots of each expert in `load`, shares in `share`, both [E].
  void add_up_group(Index first, Index last, std::span<T> load, std::span<double> share) const {
    std::ranges::fill(load, T{0});
    std::ranges::fill(share, 0.0);
    const std::vector<std::int32_t>& sent = a_.sent();
    for (Index t = first; t < last; ++t) {
      if (is_set(a_.padding, t)) continue;
      const T* shares = aux_shares(config_, a_.scores.row(t), experts_);
      for (Index e = 0; e < experts_; ++e) share[e] += static_cast<double>(shares[e]);
      for (Index slot = t * config_.top_k; slot < (t + 1) * config_.top_k; ++slot)
        if (sent[slot] >= 0) load[sent[slot]] += T{1};
    }
  }

  // Returns aux_coeff * mean over sequences of sum_e f_e P_e, f_e = E / (K S) count_e, P_e = mean share of expert e
  // (DeepSeek-V3, arXiv:2412.19437, section 2.1.2; in batch mode each microbatch counts as one sequence). count_e
  // counts the chosen experts, with bias and groups, as in TorchTitan and NeMo Automodel; DeepSeek's formula, and
  // Megatron-LM, count the top K of the scores alone.
  //
  // Shares are added up separately in each sequence, or, in batch mode, in each microbatch. If there is a single
  // microbatch, they are added up in its shards, whose sums are then added.
  double auxiliary_loss() {
    const bool by_batch = config_.aux_mode == AuxMode::batch, whole = by_batch && limits_.microbatches == 1;
    Index groups = part_.sequences;
    if (by_batch) groups = limits_.microbatches;
    if (whole) groups = part_.shards;
    const Index tokens = a_.scores.rows / groups;
    thread_local std::vector<double> share_of_group, loss_of_group;
    share_of_group.resize(groups * experts_);
    const Matrix<double> share(share_of_group.data(), groups, experts_);
    parallel_for(to_int(groups), [&](int group) {
      add_up_group(group * tokens, (group + 1) * tokens, a_.load.values(group), share.values(group));
    });
    double fault = 1;
    if (config_.fault_aux_loss == AuxFault::times_microbatches) fault = limits_.microbatches;
    if (config_.fault_aux_loss == AuxFault::over_microbatches) fault = 1.0 / limits_.microbatches;
    const auto weigh = [&](double counted) {
      a_.load_weight.push_back(static_cast<T>(config_.aux_coeff / counted * fault));
    };
    const auto loss = [&](Index group, std::size_t counted) {
      return group_loss<T>(config_, counted, a_.load.values(group), share.values(group));
    };
    a_.load_weight.clear();
    a_.load_tokens = whole ? a_.scores.rows : tokens;
    if (whole) {
      weigh(static_cast<double>(a_.counted));
      add_pairwise(share);
      add_pairwise(a_.load.row_block(0, groups));
      sum_over_ranks(part_.ranks, share.values(0));
      sum_over_ranks(part_.ranks, a_.load.values(0));
      return config_.aux_coeff * loss(0, a_.counted);
    }
    const Index all_groups = groups * part_.rank_count;
    loss_of_group.resize(groups);
    for (Index g = 0; g < groups; ++g) {
      const std::size_t real = real_tokens(a_.padding, g * tokens, tokens);
      loss_of_group[g] = loss(g, real);
      weigh(static_cast<double>(all_groups) * real);
    }
    const auto sum_of_groups = [](std::size_t first, std::size_t last) {
      return std::accumulate(loss_of_group.begin() + first, loss_of_group.begin() + last, 0.0);
    };
    if (by_batch) return config_.aux_coeff * sum_of_groups(0, groups) / groups;
    const double total = sum_over_batch(
        part_, [&](std::size_t first, std::size_t last) { return sum_of_groups(first / tokens, last / tokens); });
    return config_.aux_coeff * total / part_.all_sequences();
  }

  double z_loss() const {
    const double sum = sum_over_batch(part_, [this](std::size_t first, std::size_t last) {
      double squares = 0;
      for (std::size_t t = first; t < last; ++t)
        if (!is_set(a_.padding, t)) squares += static_cast<double>(a_.lse[t]) * static_cast<double>(a_.lse[t]);
      return squares;
    });
    return config_.z_coeff * sum / static_cast<double>(a_.counted);
  }

  const RouterConfig& config_;
  const BatchPart& part_;
  const RouterInputs<T>& in_;
  const RoutingInputs& limits_;
  const RandomStream noise_;
  RouterActivations<T>& a_;
  const Index experts_ = a_.scores.cols;
  std::vector<std::int32_t> living_;  // with forced balance
};

// Computes ds_E of token t from its mixing weights.
//     with route_norm, m_j = c s_j / (sum s + eps):  ds_j = (c dm_j - sum_i dm_i m_i) / (sum s + eps)
template <class T>
void mix_gradient(const RouterConfig& config, const RouterActivations<T>& a, Index t, std::span<const T> dmix,
                  std::span<T> dscores) {
  const auto scores = a.scores.values(t), mix = a.mix.values(t);
  const std::int32_t* ids = a.ids.data() + t * config.top_k;
  const T scale = static_cast<T>(config.route_scale);
  T sum = static_cast<T>(kNormFloor), pull = 0;
  for (int j = 0; j < config.top_k; ++j) {
    sum += scores[ids[j]];
    pull += dmix[j] * mix[j];
  }
  for (int j = 0; j < config.top_k; ++j)
    dscores[ids[j]] += config.route_norm ? (scale * dmix[j] - pull) / sum : scale * dmix[j];
}

// Adds the gradient of the auxiliary loss: `coefficient` = aux_coeff / (groups S) times f_e, through the share p_e =
// s_e / sum s, or with the fault softmax_twice through a softmax of s.
template <class T>
void aux_gradient(const RouterConfig& config, const T* scores, std::span<const T> load, T coefficient,
                  std::span<T> dscores) {
  const Index experts = std::ssize(load);
  if (config.fault_aux_loss == AuxFault::softmax_twice) {
    const T* shares = aux_shares(config, scores, experts);
    T mean = 0;
    for (Index e = 0; e < experts; ++e) mean += load[e] * shares[e];
    for (Index e = 0; e < experts; ++e) dscores[e] += coefficient * shares[e] * (load[e] - mean);
    return;
  }
  const T divisor = share_divisor(config, scores, experts);
  T pull = 0;
  if (config.score_func != ScoreFunc::softmax)
    for (Index e = 0; e < experts; ++e) pull += load[e] * scores[e] / divisor;
  for (Index e = 0; e < experts; ++e) dscores[e] += coefficient * (load[e] - pull) / divisor;
}

// Turns dL/ds into dL/dlogit in place.
template <class T>
void score_gradient(ScoreFunc func, const T* scores, std::span<T> gradient) {
  if (func == ScoreFunc::sigmoid) {
    for (std::size_t e = 0; e < gradient.size(); ++e) gradient[e] *= scores[e] * (T{1} - scores[e]);
    return;
  }
  if (func == ScoreFunc::sqrtsoftplus) {
    // ds/dx = sigmoid(x) / (2 s), and sigmoid(x) = 1 - e^(-s^2), which is close to s^2 if s is small.
    for (std::size_t e = 0; e < gradient.size(); ++e) {
      const double s = static_cast<double>(scores[e]);
      gradient[e] *= s > 0 ? static_cast<T>(-ordered_expm1(-s * s) / (2 * s)) : T{0};
    }
    return;
  }
  T pull = 0;
  for (std::size_t e = 0; e < gradient.size(); ++e) pull += gradient[e] * scores[e];
  for (std::size_t e = 0; e < gradient.size(); ++e) gradient[e] = scores[e] * (gradient[e] - pull);
}

// Adds the gradient of the z-loss, z_coeff 2 lse / T softmax(logits).
template <class T>
void z_gradient(const T* logits, T coefficient, std::span<T> gradient) {
  thread_local std::vector<T> p;
  p.resize(gradient.size());
  softmax_row(logits, p.size(), T{1}, p.data());
  for (std::size_t e = 0; e < p.size(); ++e) gradient[e] += coefficient * p[e];
}

}  // namespace

std::vector<std::int32_t> living_experts(std::size_t n_experts, Mask killed) {
  std::vector<std::int32_t> living;
  for (std::size_t e = 0; e < n_experts; ++e)
    if (!is_set(killed, e)) living.push_back(to_int(e));
  return living;
}

template <class T>
void mixing_weights(const RouterConfig& config, std::span<const T> scores, std::span<const std::int32_t> ids,
                    std::span<T> mix) {
  T sum = static_cast<T>(kNormFloor);
  for (int j = 0; j < config.top_k; ++j) {
    mix[j] = scores[ids[j]];
    sum += mix[j];
  }
  const T factor = static_cast<T>(config.route_scale) / (config.route_norm ? sum : T{1});
  for (int j = 0; j < config.top_k; ++j) mix[j] *= factor;
}

template <class T>
void RouterActivations<T>::plan(Arena<T>& arena, const BatchPart& part, int n_experts, int top_k) {
  const Index tokens = part.tokens();
  arena.plan(logits, tokens, n_experts);
  arena.plan(scores, tokens, n_experts);
  arena.plan(lse, tokens);
  arena.plan(mix, tokens, top_k);
  arena.plan(margin, tokens);
  arena.plan(cutoff, tokens);
  arena.plan(load, std::max(part.sequences, part.shards), n_experts);  // no more microbatches than sequences
  ids.assign(tokens * top_k, 0);
  tokens_per_expert.assign(n_experts, 0);
  rows_per_expert.assign(n_experts, 0);
}

template <class T>
Matrix<const T> RouterActivations<T>::judged(const RouterConfig& config) const {
  if (config.balance_rule == BalanceRule::quantile_microbatch) return logits;
  if (levelled_scores.empty()) return scores;
  return {levelled_scores.data(), scores.rows, scores.cols};
}

template <class T>
ChoiceLimits<T> choose_experts(const RouterConfig& config, std::span<const T> choice, std::span<std::int32_t> ids,
                               Mask killed) {
  thread_local std::vector<std::uint8_t> keep;
  thread_local std::vector<std::int32_t> best;
  best.resize(config.top_k + 1);
  int found = 0;
  if (config.limits_groups()) {
    keep_best_groups(config, choice, killed, keep);
    const std::size_t width = choice.size() / config.n_groups;
    if (config.fault_group_mask == GroupMask::zero) {
      thread_local std::vector<T> masked;
      masked.assign(choice.begin(), choice.end());
      for (std::size_t e = 0; e < masked.size(); ++e)
        if (!keep[e / width]) masked[e] = T{0};
      RouterConfig without_groups = config;
      without_groups.n_groups = 0;
      return choose_experts<T>(without_groups, masked, ids, killed);
    }
    const auto allowed = [&](std::int32_t e) { return keep[e / width] != 0 && !is_set(killed, e); };
    found = best_indices(choice, config.top_k + 1, allowed, best.data());
  } else if (!killed.empty()) {
    found = best_indices(
        choice, config.top_k + 1, [&](std::int32_t e) { return !killed[e]; }, best.data());
  } else {
    found = best_indices(
        choice, config.top_k + 1, [](std::int32_t) { return true; }, best.data());
  }
  assert(found >= config.top_k);
  const T next = found > config.top_k ? choice[best[config.top_k]] : std::numeric_limits<T>::quiet_NaN();
  std::copy_n(best.begin(), config.top_k, ids.begin());
  std::sort(ids.begin(), ids.begin() + config.top_k);
  return {choice[best[config.top_k - 1]] - next, next};
}

template <class T>
void router_forward(const RouterConfig& config, const BatchPart& part, const RouterInputs<T>& in,
                    RouterActivations<T>& a, const LinearPrecision& precision, const RoutingInputs& limits) {
  linear_forward<T>(in.h, in.gate, a.logits, false, precision);
  RouterPass<T>(config, part, in, limits, a).route();
}

template <class T>
void router_backward(const RouterConfig& config, const RouterInputs<T>& in, const RouterActivations<T>& a,
                     const RouterGradients<T>& gradients, const LinearPrecision& precision) {
  const Matrix<T>& dlogits = gradients.dlogits;
  parallel_slices(dlogits.rows, kRouterTokens, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const T* scores = a.scores.row(t);
      const std::span<T> gradient = dlogits.values(t);
      const bool counts = !is_set(a.padding, t);
      std::ranges::fill(gradient, T{0});
      mix_gradient<T>(config, a, t, gradients.dmix.values(t), gradient);
      if (config.aux_mode != AuxMode::none && counts) {
        const std::size_t row = t / a.load_tokens;
        aux_gradient<T>(config, scores, a.load.values(row), a.load_weight[row], gradient);
      }
      score_gradient(config.score_func, scores, gradient);
      if (config.z_coeff > 0 && counts)
        z_gradient(a.logits.row(t), static_cast<T>(2 * config.z_coeff / static_cast<double>(a.counted)) * a.lse[t],
                   gradient);
    }
  });
  if (precision.bf16_output) round_all_to_bf16(dlogits);
  linear_backward<T>(dlogits, in.h, in.gate, gradients.dgate, gradients.dh, gradients.adds_dh, precision);
}

int expert_capacity(std::size_t tokens, int top_k, int n_experts, double factor) {
  return static_cast<int>(std::ceil(static_cast<double>(tokens * top_k) / n_experts * factor));
}

template <class T>
void drop_beyond_capacity(TokenDrop policy, int n_experts, int capacity, Matrix<std::int32_t> ids, Matrix<T> mix,
                          Mask padding) {
  std::vector<std::vector<std::size_t>> copies_of(n_experts);
  for (Index i = 0; i < ids.size(); ++i)
    if (!is_set(padding, i / ids.cols)) copies_of[ids.data[i]].push_back(i);
  for (std::vector<std::size_t>& expert_copies : copies_of) {
    if (std::ssize(expert_copies) <= capacity) continue;
    if (policy == TokenDrop::probs)
      std::ranges::stable_sort(expert_copies, std::ranges::greater(), [&](std::size_t copy) { return mix.data[copy]; });
    for (const std::size_t copy : std::span(expert_copies).subspan(capacity)) {
      mix.data[copy] = T{0};
      ids.data[copy] = -1;
    }
  }
}

ExpertTable::ExpertTable(std::int64_t seed, int layer, int vocab, int n_experts, int top_k) : top_k_(top_k) {
  const RandomStream random(seed, fmt::format("router.expert_table.{}", layer));
  std::vector<double> drawn(n_experts);
  std::vector<std::int32_t> order(n_experts);
  for (std::size_t v = 0; v < static_cast<std::size_t>(vocab); ++v) {
    for (std::size_t e = 0; e < drawn.size(); ++e) drawn[e] = random.uniform(v * drawn.size() + e);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](std::int32_t e) { return drawn[e]; });
    std::sort(order.begin(), order.begin() + top_k);
    rows_.insert(rows_.end(), order.begin(), order.begin() + top_k);
  }
}

void ExpertTable::look_up(std::span<const std::int32_t> tokens, std::vector<std::int32_t>& ids) const {
  ids.clear();
  for (const std::ptrdiff_t token : tokens) {
    const auto row = rows_.begin() + token * top_k_;
    ids.insert(ids.end(), row, row + top_k_);
  }
}

#define INSTANTIATE(T)                                                                                                \
  template struct RouterActivations<T>;                                                                               \
  template void mixing_weights<T>(const RouterConfig&, std::span<const T>, std::span<const std::int32_t>,             \
                                  std::span<T>);                                                                      \
  template ChoiceLimits<T> choose_experts<T>(const RouterConfig&, std::span<const T>, std::span<std::int32_t>, Mask); \
  template void router_forward<T>(const RouterConfig&, const BatchPart&, const RouterInputs<T>&,                      \
                                  RouterActivations<T>&, const LinearPrecision&, const RoutingInputs&);               \
  template void router_backward<T>(const RouterConfig&, const RouterInputs<T>&, const RouterActivations<T>&,          \
                                   const RouterGradients<T>&, const LinearPrecision&);                                \
  template void drop_beyond_capacity<T>(TokenDrop, int, int, Matrix<std::int32_t>, Matrix<T>, Mask);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
