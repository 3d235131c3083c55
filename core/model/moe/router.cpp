#include "core/model/moe/router.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/model/layers/linear.h"
#include "core/model/moe/moving_quantile.h"
#include "core/model/moe/token_drop.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/rng.h"
#include "core/numerics/size.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kRouterTokens = 64;
constexpr double kNormFloor = 1e-20;  // keeps mixing weights finite if all scores of a token are zero

// sqrt(ln(1 + e^x)), computed in double and rounded to float, so that the result does not depend on the C library's
// e^x.
template <class T>
void sqrtsoftplus_row(const T* in, std::size_t n, T* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(in[i]);
    out[i] = std::sqrt(static_cast<T>(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)))));
  }
}

template <class T>
void score_rows(ScoreFunc func, const T* logits, std::size_t rows, int n_experts, bool need_lse, T* scores, T* lse) {
  const std::size_t experts = n_experts;
  for (std::size_t r = 0; r < rows; ++r) {
    const T* z = logits + r * experts;
    T* s = scores + r * experts;
    if (func == ScoreFunc::softmax || need_lse) lse[r] = softmax_row(z, experts, T{1}, s);
    if (func == ScoreFunc::sigmoid) sigmoid_row(z, experts, s);
    if (func == ScoreFunc::sqrtsoftplus) sqrtsoftplus_row(z, experts, s);
  }
}

// Writes the indices of the largest `count` values that `allowed` accepts to `best`, largest first; equal values keep
// index order. `best` has room for `count` indices. Returns the number of written indices.
template <class T, class Allowed>
int best_indices(std::span<const T> values, int count, const Allowed& allowed, std::int32_t* best) {
  int found = 0;
  for (std::int32_t e = 0; e < static_cast<std::int32_t>(values.size()); ++e) {
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
void keep_best_groups(const RouterConfig& config, std::span<const T> choice, const std::uint8_t* killed,
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
      if (killed && killed[e]) {
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

// Returns a token's scores from its logits plus noise: the E random numbers that belong to token `t` of the whole
// batch.
template <class T>
const T* noisy_scores(const RouterConfig& config, const T* logits, int n_experts, std::size_t t,
                      const RandomStream& noise) {
  thread_local std::vector<T> z, scores;
  z.resize(n_experts);
  scores.resize(n_experts);
  for (std::size_t e = 0; e < z.size(); ++e)
    z[e] = logits[e] + static_cast<T>(config.gate_noise * noise.normal(t * z.size() + e));
  T lse{};
  score_rows(config.score_func, z.data(), 1, n_experts, false, scores.data(), &lse);
  return scores.data();
}

// Computes choice and mixing weights of token t.
template <class T>
void route_token(const RouterConfig& config, const T* expert_bias, int n_experts, const BatchPart& part, std::size_t t,
                 const RoutingInputs& limits, const RandomStream& noise, RouterActivations<T>& a) {
  const T* scores = a.scores + t * size(n_experts);
  const T* judged = a.judged(config) + t * size(n_experts);
  if (config.gate_noise > 0)
    judged = noisy_scores(config, a.logits + t * size(n_experts), n_experts, part.first_token() + t, noise);
  thread_local std::vector<T> choice;
  choice.resize(n_experts);
  for (int e = 0; e < n_experts; ++e) choice[e] = judged[e] + expert_bias[e];
  std::int32_t* ids = a.ids.data() + t * size(config.top_k);
  a.margin[t] = choose_experts<T>(config, choice, ids, limits.killed, a.cutoff + t);
  mixing_weights(config, scores, ids, a.mix + t * size(config.top_k));
}

// Gives token t the experts `chosen`, mixed by the token's own scores.
template <class T>
void take_experts(const RouterConfig& config, const std::int32_t* chosen, int n_experts, std::size_t t,
                  RouterActivations<T>& a) {
  const std::size_t top_k = config.top_k;
  std::copy_n(chosen + t * top_k, top_k, a.ids.data() + t * top_k);
  mixing_weights(config, a.scores + t * size(n_experts), a.ids.data() + t * top_k, a.mix + t * top_k);
}

// Sets the values of token t, whose experts are given. Margin and cutoff are NaN.
template <class T>
void take_given(const RouterConfig& config, const std::int32_t* given_ids, int n_experts, std::size_t t,
                RouterActivations<T>& a) {
  take_experts(config, given_ids, n_experts, t, a);
  a.margin[t] = a.cutoff[t] = std::numeric_limits<T>::quiet_NaN();
}

// Returns how many of the tokens are not padding.
std::size_t real_tokens(const std::uint8_t* padding, std::size_t tokens) {
  return padding ? tokens - size(std::count(padding, padding + tokens, std::uint8_t{1})) : tokens;
}

// Drops the copies beyond the capacity of their experts, in each microbatch over all ranks.
template <class T>
void drop_tokens(const RouterConfig& config, const BatchPart& part, int n_experts, int microbatches,
                 RouterActivations<T>& a) {
  const std::size_t own_copies = a.ids.size(), all = part.all_tokens * size(config.top_k);
  std::vector<std::int32_t> ids = a.ids;
  std::vector<T> mix(a.mix, a.mix + own_copies);
  if (part.ranks) {
    ids.resize(all);
    mix.resize(all);
    part.ranks->gather_all(a.ids.data(), own_copies * sizeof(std::int32_t), ids.data());
    part.ranks->gather_all(a.mix, own_copies * sizeof(T), mix.data());
  }
  std::vector<std::uint8_t> kept_copies(all);
  const std::size_t of_part = part.all_tokens / size(microbatches), copies = of_part * size(config.top_k);
  for (std::size_t m = 0; m < size(microbatches); ++m) {
    const std::uint8_t* padding = a.padding ? a.padding + m * of_part : nullptr;
    drop_beyond_capacity(
        config.token_drop, Matrix<const std::int32_t>(ids.data() + m * copies, of_part, config.top_k), n_experts,
        expert_capacity(real_tokens(padding, of_part), config.top_k, n_experts, config.capacity_factor),
        mix.data() + m * copies, kept_copies.data() + m * copies, padding);
  }
  const std::size_t first = part.first_token() * size(config.top_k);
  std::copy_n(mix.data() + first, own_copies, a.mix);
  a.not_dropped = a.ids;
  for (std::size_t i = 0; i < own_copies; ++i)
    if (!kept_copies[first + i]) a.not_dropped[i] = -1;
}

// Counts the slots of each expert in the whole batch, [E]. router.fault_recount doubles the counts.
void count_experts(const RouterConfig& config, const BatchPart& part, const std::vector<std::int32_t>& ids,
                   const std::uint8_t* padding, std::vector<std::uint32_t>& counts) {
  std::fill(counts.begin(), counts.end(), 0u);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0 && !(padding && padding[i / size(config.top_k)])) ++counts[ids[i]];
  sum_over_ranks(part.ranks, counts.data(), counts.size());
  if (config.fault_recount)
    for (std::uint32_t& count : counts) count *= 2;
}

// Sets the values of token t under forced balance: living experts are chosen round-robin.
template <class T>
void assign_round_robin(const RouterConfig& config, const std::vector<std::int32_t>& living, int n_experts,
                        const BatchPart& part, std::size_t t, RouterActivations<T>& a) {
  std::int32_t* ids = a.ids.data() + t * size(config.top_k);
  for (int j = 0; j < config.top_k; ++j)
    ids[j] = living[((part.first_token() + t) * size(config.top_k) + size(j)) % living.size()];
  a.margin[t] = a.cutoff[t] = std::numeric_limits<T>::quiet_NaN();
  mixing_weights(config, a.scores + t * size(n_experts), ids, a.mix + t * size(config.top_k));
}

// Returns the divisor that turns a token's scores into shares of the experts: 1 for softmax, whose scores already sum
// to 1.
template <class T>
T share_divisor(const RouterConfig& config, const T* scores, int n_experts) {
  if (config.score_func == ScoreFunc::softmax) return T{1};
  T sum = static_cast<T>(kNormFloor);
  for (int e = 0; e < n_experts; ++e) sum += scores[e];
  return sum;
}

// True if the auxiliary loss is computed from the sums over the whole batch.
bool is_of_batch(const RouterConfig& config, int microbatches) {
  return config.aux_mode == AuxMode::batch && microbatches == 1;
}

// Returns the number of groups of tokens whose shares are added up separately: sequences, or, in batch mode,
// microbatches. If there is a single microbatch, the groups are its shards, whose sums are then added.
int aux_groups(const RouterConfig& config, const BatchPart& part, int microbatches) {
  if (is_of_batch(config, microbatches)) return part.shards;
  return config.aux_mode == AuxMode::batch ? microbatches : part.sequences;
}

// Computes a token's share of each expert for the auxiliary loss.
template <class T>
void aux_shares(const RouterConfig& config, const T* scores, int n_experts, T* shares) {
  if (config.fault_aux_loss == AuxFault::softmax_twice) {
    softmax_row(scores, size(n_experts), T{1}, shares);
    return;
  }
  const T divisor = share_divisor(config, scores, n_experts);
  for (int e = 0; e < n_experts; ++e) shares[e] = scores[e] / divisor;
}

// Sums over the tokens [first, last) without padding: slots of each expert in `load`, shares in `share`, both [E].
template <class T>
void add_up_group(const RouterConfig& config, int n_experts, std::size_t first, std::size_t last,
                  const RouterActivations<T>& a, T* load, double* share) {
  const std::size_t experts = n_experts, top_k = config.top_k;
  std::fill_n(load, experts, T{0});
  std::fill_n(share, experts, 0.0);
  thread_local std::vector<T> shares;
  shares.resize(experts);
  for (std::size_t t = first; t < last; ++t) {
    if (a.padding && a.padding[t]) continue;
    aux_shares(config, a.scores + t * experts, n_experts, shares.data());
    for (std::size_t e = 0; e < experts; ++e) share[e] += static_cast<double>(shares[e]);
    for (std::size_t j = 0; j < top_k; ++j)
      if (const std::int32_t e = a.sent()[t * top_k + j]; e >= 0) load[e] += T{1};
  }
}

// Turns a group's counts into f and returns sum_e f_e P_e.
template <class T>
double group_loss(std::size_t experts, std::size_t top_k, std::size_t tokens, T* load, const double* share) {
  double loss = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    load[e] *= static_cast<T>(static_cast<double>(experts) / static_cast<double>(top_k * tokens));
    loss += static_cast<double>(load[e]) * share[e] / static_cast<double>(tokens);
  }
  return loss;
}

// Returns aux_coeff * mean over sequences of sum_e f_e P_e, f_e = E / (K S) count_e, P_e = mean share of expert e
// (DeepSeek-V3, arXiv:2412.19437, section 2.1.2; in batch mode each microbatch counts as one sequence). count_e counts
// the chosen experts, with bias and groups, as in TorchTitan and NeMo Automodel; DeepSeek's formula, and Megatron-LM,
// count the top K of the scores alone.
template <class T>
double auxiliary_loss(const RouterConfig& config, const BatchPart& part, int n_experts, int microbatches,
                      RouterActivations<T>& a) {
  const int groups = aux_groups(config, part, microbatches);
  const std::size_t experts = n_experts, top_k = config.top_k, tokens = part.tokens() / size(groups);
  thread_local std::vector<double> share_of_group, loss_of_group;
  share_of_group.resize(size(groups) * experts);
  double* share = share_of_group.data();
  parallel_for(groups, [&](int group) {
    add_up_group(config, n_experts, size(group) * tokens, (size(group) + 1) * tokens, a, a.load + size(group) * experts,
                 share + size(group) * experts);
  });
  const double fault = config.fault_aux_loss == AuxFault::times_microbatches  ? microbatches
                       : config.fault_aux_loss == AuxFault::over_microbatches ? 1.0 / microbatches
                                                                              : 1;
  const auto weigh = [&](double counted) {
    a.load_weight.push_back(static_cast<T>(config.aux_coeff / counted * fault));
  };
  a.load_weight.clear();
  if (is_of_batch(config, microbatches)) {
    a.load_tokens = part.tokens();
    weigh(static_cast<double>(a.counted));
    add_pairwise(share, experts, groups, experts);
    add_pairwise(a.load, experts, groups, experts);
    sum_over_ranks(part.ranks, share, experts);
    sum_over_ranks(part.ranks, a.load, experts);
    return config.aux_coeff * group_loss(experts, top_k, a.counted, a.load, share);
  }
  a.load_tokens = tokens;
  const int all_groups = groups * part.rank_count;
  loss_of_group.resize(groups);
  for (std::size_t g = 0; g < size(groups); ++g) {
    const std::size_t real = real_tokens(a.padding ? a.padding + g * tokens : nullptr, tokens);
    loss_of_group[g] = group_loss(experts, top_k, real, a.load + g * experts, share + g * experts);
    weigh(static_cast<double>(all_groups) * static_cast<double>(real));
  }
  if (config.aux_mode == AuxMode::batch) {
    double total = 0;
    for (const double loss : loss_of_group) total += loss;
    return config.aux_coeff * total / groups;
  }
  const double total = sum_over_batch(part, [tokens](std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t g = first / tokens; g < last / tokens; ++g) sum += loss_of_group[g];
    return sum;
  });
  return config.aux_coeff * total / part.all_sequences();
}

template <class T>
double z_loss(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& a) {
  const double sum = sum_over_batch(part, [&a](std::size_t first, std::size_t last) {
    double squares = 0;
    for (std::size_t t = first; t < last; ++t)
      if (!a.padding || !a.padding[t]) squares += static_cast<double>(a.lse[t]) * static_cast<double>(a.lse[t]);
    return squares;
  });
  return config.z_coeff * sum / static_cast<double>(a.counted);
}

// Computes ds_E of token t from its mixing weights.
//     with route_norm, m_j = c s_j / (sum s + eps):  ds_j = (c dm_j - sum_i dm_i m_i) / (sum s + eps)
template <class T>
void mix_gradient(const RouterConfig& config, const T* scores, const std::int32_t* ids, const T* mix, const T* dmix,
                  T* dscores) {
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
void aux_gradient(const RouterConfig& config, const T* scores, const T* load, int n_experts, T coefficient,
                  T* dscores) {
  if (config.fault_aux_loss == AuxFault::softmax_twice) {
    thread_local std::vector<T> shares;
    shares.resize(size(n_experts));
    aux_shares(config, scores, n_experts, shares.data());
    T mean = 0;
    for (int e = 0; e < n_experts; ++e) mean += load[e] * shares[e];
    for (int e = 0; e < n_experts; ++e) dscores[e] += coefficient * shares[e] * (load[e] - mean);
    return;
  }
  const T divisor = share_divisor(config, scores, n_experts);
  T pull = 0;
  if (config.score_func != ScoreFunc::softmax)
    for (int e = 0; e < n_experts; ++e) pull += load[e] * scores[e] / divisor;
  for (int e = 0; e < n_experts; ++e) dscores[e] += coefficient * (load[e] - pull) / divisor;
}

// Turns dL/ds into dL/dlogit in place.
template <class T>
void score_gradient(ScoreFunc func, const T* scores, int n_experts, T* gradient) {
  if (func == ScoreFunc::sigmoid) {
    for (int e = 0; e < n_experts; ++e) gradient[e] *= scores[e] * (T{1} - scores[e]);
    return;
  }
  if (func == ScoreFunc::sqrtsoftplus) {
    // ds/dx = sigmoid(x) / (2 s), and sigmoid(x) = 1 - e^(-s^2), which is close to s^2 if s is small.
    for (int e = 0; e < n_experts; ++e) {
      const double s = static_cast<double>(scores[e]);
      gradient[e] *= s > 0 ? static_cast<T>(-std::expm1(-s * s) / (2 * s)) : T{0};
    }
    return;
  }
  T pull = 0;
  for (int e = 0; e < n_experts; ++e) pull += gradient[e] * scores[e];
  for (int e = 0; e < n_experts; ++e) gradient[e] = scores[e] * (gradient[e] - pull);
}

// Adds the gradient of the z-loss, z_coeff 2 lse / T softmax(logits).
template <class T>
void z_gradient(const T* logits, int n_experts, T coefficient, T* gradient) {
  thread_local std::vector<T> p;
  p.resize(n_experts);
  softmax_row(logits, size(n_experts), T{1}, p.data());
  for (int e = 0; e < n_experts; ++e) gradient[e] += coefficient * p[e];
}

}  // namespace

std::vector<std::int32_t> living_experts(std::size_t n_experts, const std::uint8_t* killed) {
  std::vector<std::int32_t> living;
  for (std::size_t e = 0; e < n_experts; ++e)
    if (!killed || !killed[e]) living.push_back(e);
  return living;
}

template <class T>
void mixing_weights(const RouterConfig& config, const T* scores, const std::int32_t* ids, T* mix) {
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
  const std::size_t tokens = part.tokens();
  arena.plan(logits, tokens * size(n_experts));
  arena.plan(scores, tokens * size(n_experts));
  arena.plan(lse, tokens);
  arena.plan(mix, tokens * size(top_k));
  arena.plan(margin, tokens);
  arena.plan(cutoff, tokens);
  // There are no more microbatches than sequences.
  arena.plan(load, size(std::max(part.sequences, part.shards)) * size(n_experts));
  ids.assign(tokens * size(top_k), 0);
  tokens_per_expert.assign(n_experts, 0);
  rows_per_expert.assign(n_experts, 0);
}

template <class T>
const T* RouterActivations<T>::judged(const RouterConfig& config) const {
  if (config.balance_rule == BalanceRule::quantile_microbatch) return logits;
  return levelled_scores.empty() ? scores : levelled_scores.data();
}

template <class T>
T choose_experts(const RouterConfig& config, std::span<const T> choice, std::int32_t* ids, const std::uint8_t* killed,
                 T* cutoff) {
  thread_local std::vector<std::uint8_t> keep;
  thread_local std::vector<std::int32_t> best;
  best.resize(size(config.top_k) + 1);
  int found = 0;
  if (config.n_groups > 0 && config.n_limited_groups > 0) {
    keep_best_groups(config, choice, killed, keep);
    const std::size_t width = choice.size() / size(config.n_groups);
    if (config.fault_group_mask == GroupMask::zero) {
      thread_local std::vector<T> masked;
      masked.assign(choice.begin(), choice.end());
      for (std::size_t e = 0; e < masked.size(); ++e)
        if (!keep[e / width]) masked[e] = T{0};
      RouterConfig without_groups = config;
      without_groups.n_groups = 0;
      return choose_experts<T>(without_groups, masked, ids, killed, cutoff);
    }
    const auto allowed = [&](std::int32_t e) { return keep[size(e) / width] != 0 && !(killed && killed[e]); };
    found = best_indices(choice, config.top_k + 1, allowed, best.data());
  } else if (killed) {
    found = best_indices(
        choice, config.top_k + 1, [&](std::int32_t e) { return !killed[e]; }, best.data());
  } else {
    found = best_indices(
        choice, config.top_k + 1, [](std::int32_t) { return true; }, best.data());
  }
  assert(found >= config.top_k);
  const T next = found > config.top_k ? choice[best[config.top_k]] : std::numeric_limits<T>::quiet_NaN();
  const T margin = choice[size(best[size(config.top_k) - 1])] - next;
  if (cutoff) *cutoff = next;
  std::copy_n(best.begin(), config.top_k, ids);
  std::sort(ids, ids + config.top_k);
  return margin;
}

template <class T>
void router_forward(const RouterConfig& config, const BatchPart& part, const RouterInputs<T>& in,
                    RouterActivations<T>& a, const LinearPrecision& precision, const RoutingInputs& limits) {
  const std::size_t tokens = part.tokens();
  const int n_experts = static_cast<int>(in.gate.rows);
  const RandomStream noise(static_cast<std::int64_t>(limits.noise_seed), "router.gate_noise");
  const auto living =
      config.force_balance ? living_experts(size(n_experts), limits.killed) : std::vector<std::int32_t>{};
  linear_forward<T>(in.h, in.gate, {a.logits, tokens, n_experts}, false, precision);
  const auto score = [&](std::size_t first, std::size_t last) {
    score_rows(config.score_func, a.logits + first * size(n_experts), last - first, n_experts, config.z_coeff > 0,
               a.scores + first * size(n_experts), a.lse + first);
  };
  const bool levels = config.balance_rule == BalanceRule::quantile_sequence && !limits.given_ids;
  if (levels) {
    parallel_slices(tokens, kRouterTokens, score);
    level_sequences<T>(config, part, Matrix<const T>(a.scores, tokens, n_experts), limits.killed, a.levelled_scores);
  } else {
    a.levelled_scores.clear();
  }
  parallel_slices(tokens, kRouterTokens, [&](std::size_t first, std::size_t last) {
    if (!levels) score(first, last);
    for (std::size_t t = first; t < last; ++t) {
      if (limits.given_ids)
        take_given(config, limits.given_ids, n_experts, t, a);
      else if (config.force_balance)
        assign_round_robin(config, living, n_experts, part, t, a);
      else
        route_token(config, in.expert_bias, n_experts, part, t, limits, noise, a);
      if (limits.replayed) take_experts(config, limits.replayed, n_experts, t, a);
    }
  });
  a.not_dropped.clear();
  a.padding = limits.padding;
  a.counted = part.ranks ? part.all_tokens : real_tokens(a.padding, part.all_tokens);
  if (config.token_drop != TokenDrop::none) drop_tokens(config, part, n_experts, limits.microbatches, a);
  count_experts(config, part, a.ids, a.padding, a.tokens_per_expert);
  if (a.not_dropped.empty())
    a.rows_per_expert = a.tokens_per_expert;
  else
    count_experts(config, part, a.not_dropped, a.padding, a.rows_per_expert);
  a.aux_loss = config.aux_mode == AuxMode::none ? 0 : auxiliary_loss(config, part, n_experts, limits.microbatches, a);
  a.z_loss = config.z_coeff > 0 ? z_loss(config, part, a) : 0;
}

template <class T>
void router_backward(const RouterConfig& config, const BatchPart& part, const RouterInputs<T>& in,
                     const RouterActivations<T>& a, const RouterGradients<T>& gradients,
                     const LinearPrecision& precision) {
  const int n_experts = static_cast<int>(in.gate.rows);
  const std::size_t tokens = part.tokens(), experts = n_experts, top_k = config.top_k;
  const auto counts = [&a](std::size_t t) { return !a.padding || !a.padding[t]; };
  parallel_slices(tokens, kRouterTokens, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) {
      const T* scores = a.scores + t * experts;
      T* gradient = gradients.dlogits.row(t);
      std::fill_n(gradient, experts, T{0});
      mix_gradient(config, scores, a.ids.data() + t * top_k, a.mix + t * top_k, gradients.dmix + t * top_k, gradient);
      if (config.aux_mode != AuxMode::none && counts(t)) {
        const std::size_t row = t / a.load_tokens;
        aux_gradient(config, scores, a.load + row * experts, n_experts, a.load_weight[row], gradient);
      }
      score_gradient(config.score_func, scores, n_experts, gradient);
      if (config.z_coeff > 0 && counts(t))
        z_gradient(a.logits + t * experts, n_experts,
                   static_cast<T>(2 * config.z_coeff / static_cast<double>(a.counted)) * a.lse[t], gradient);
    }
  });
  if (precision.bf16_output) round_all_to_bf16(gradients.dlogits);
  linear_backward<T>(gradients.dlogits, in.h, in.gate, gradients.dgate, gradients.dh, gradients.adds_dh, precision);
}

#define INSTANTIATE(T)                                                                                           \
  template struct RouterActivations<T>;                                                                          \
  template void mixing_weights<T>(const RouterConfig&, const T*, const std::int32_t*, T*);                       \
  template T choose_experts<T>(const RouterConfig&, std::span<const T>, std::int32_t*, const std::uint8_t*, T*); \
  template void router_forward<T>(const RouterConfig&, const BatchPart&, const RouterInputs<T>&,                 \
                                  RouterActivations<T>&, const LinearPrecision&, const RoutingInputs&);          \
  template void router_backward<T>(const RouterConfig&, const BatchPart&, const RouterInputs<T>&,                \
                                   const RouterActivations<T>&, const RouterGradients<T>&, const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
