#include "core/findings/fault_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/files/text/words.h"

namespace moescope {

namespace {

bool has_information(const RouterFrame& router) {
  constexpr double kMinInformation = 1e-4;  // nats; even untrained gates have 3e-4 and more (gate_watch.h)
  return is_missing(router.mutual_information) || router.mutual_information > kMinInformation;
}

// Returns the auxiliary loss with coefficient 1 from the layer's counts and scores, E sum_e f_e P_e; NaN: not known.
double auxiliary_by_counts(const RouterFrame& router) {
  const std::size_t experts = router.tokens_per_expert.size();
  double slots = 0, sum = 0;
  if (experts == 0 || router.score_mass.size() != experts) return std::nan("");
  for (std::size_t e = 0; e < experts; ++e) {
    slots += router.tokens_per_expert[e];
    sum += router.tokens_per_expert[e] * static_cast<double>(router.score_mass[e]);
  }
  return slots > 0 ? experts * sum / slots : std::nan("");
}

// Returns the value of a layer's auxiliary loss at an even load; NaN: not known. Other programs may divide by K or not;
// for them the value that the loss is near is returned.
double even_auxiliary(double value, double coeff, bool is_ours, int top_k) {
  if (is_ours) return coeff;
  for (const double even : {coeff, coeff * top_k})
    if (value > 0.98 * even && value < 1.25 * even) return even;
  return std::nan("");
}

// True if every slot has the same mixing weight; false if that is not known.
bool has_constant_weights(const RouterFrame& router) {
  const std::vector<std::uint32_t>& counts = router.tokens_per_expert;
  const double slots = std::accumulate(counts.begin(), counts.end(), 0.0);
  const auto used = std::ranges::count_if(counts, [](std::uint32_t n) { return n > 0; });
  if (router.gate_mass.size() != counts.size() || used < 2) return false;
  for (std::size_t e = 0; e < counts.size(); ++e)
    if (!(std::fabs(router.gate_mass[e] - counts[e] / slots) <= kSameShare)) return false;
  return true;
}

}  // namespace

FaultWatch::FaultWatch(int layer, const RunInfo& info)
    : layer_(layer),
      run_(info.run),
      top_k_(info.top_k),
      trained_here_(!info.config_toml.empty()),
      unchanged_windows_(std::max(0, info.n_experts), 0) {}

void FaultWatch::window(const FaultReading& reading) {
  const double max_vio = reading.load->no_load() ? std::nan("") : reading.load->fullest_share() - 1;
  judge_excess(reading);
  if (reading.router) {
    judge_bias(reading, max_vio);
    judge_auxiliary(reading, max_vio);
    judge_weights(reading);
    judge_counts(reading);
  }
  judge_changes(reading);
  max_vio_ = max_vio;
  if (!reading.load->no_load()) window_text_ = loads_text(reading.load->window_loads());
}

void FaultWatch::judge_bias(const FaultReading& reading, double max_vio) {
  const std::vector<float>& bias = reading.router->expert_bias;
  if (bias.empty()) return;  // not logged at this step
  const bool should_move = reading.bias_rate.value_or(0) > 0 && !reading.bias_is_held && max_vio > kFaultUneven;
  unchanged_.follow(reading.step, should_move && bias == bias_);
  bias_ = bias;
  bias_rate_ = reading.bias_rate.value_or(0);
}

void FaultWatch::judge_auxiliary(const FaultReading& reading, double max_vio) {
  // If a log has only the sum over all layers, the sum shows the loss of a layer only if the sum is 0.
  const bool by_layer = !is_missing(reading.router->aux_loss);
  const double value = by_layer ? reading.router->aux_loss : reading.aux_of_all;
  const double coeff = reading.aux_coeff.value_or(0);
  if (!(coeff > 0) || !(by_layer || (value == 0 && !reading.aux_is_ours))) {
    aux_.reset();
    flat_ = {};
    return;
  }
  const bool unchanged = aux_ && std::fabs(value - *aux_) <= kFlatAuxiliary * std::fabs(value);
  const double even = even_auxiliary(value, coeff, reading.aux_is_ours, top_k_);
  // A log whose counts include padding may have an auxiliary loss that does not.
  const bool padded = !reading.aux_is_ours && shared_.windows > 0;
  aux_expected_ = padded ? std::nan("") : auxiliary_by_counts(*reading.router) * even;
  const double excess = value - even, expected = aux_expected_ - even;
  const bool too_small = expected > kExpectedExcess * even && excess < kTooSmall * expected;
  const bool uneven = max_vio > kFaultUneven;
  const bool says_nothing =
      reading.aux_is_ours && value != 0 ? too_small : (value == 0 || unchanged || too_small) && uneven;
  flat_.follow(reading.step, says_nothing && has_information(*reading.router));
  aux_ = value;
}

void FaultWatch::judge_weights(const FaultReading& reading) {
  if (trained_here_ || reading.router->gate_mass.empty()) return;  // empty: not logged at this step
  constant_.follow(reading.step, has_constant_weights(*reading.router));
}

void FaultWatch::judge_counts(const FaultReading& reading) {
  const std::vector<std::uint32_t>& counts = reading.router->tokens_per_expert;
  if (counts.empty() || reading.slots <= 0) return;
  counted_ = std::accumulate(counts.begin(), counts.end(), 0.0);
  slots_ = reading.slots;
  twice_.follow(reading.step, std::fabs(counted_ - 2 * slots_) < kTwice * 2 * slots_);
}

void FaultWatch::judge_excess(const FaultReading& reading) {
  const RecentLoad& load = *reading.load;
  const int n = load.n_experts();
  std::vector<int> order;
  if (!load.no_load() && top_k_ > 1 && n >= 2 * top_k_ + 2) {
    order.resize(n);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](int e) { return load.share(e); });
  }
  const auto share = [&](int place) { return load.share(order[place]); };
  bool holds = !order.empty();
  double excess = 0;
  std::vector<int> experts;
  if (holds) {
    double top = 0, other_share = 0;
    for (int i = 0; i < n; ++i) (i < top_k_ ? top : other_share) += share(i);
    top /= top_k_;
    other_share /= n - top_k_;
    excess = top - other_share;
    holds = excess > kMinExcess && share(0) - share(top_k_ - 1) < kSameExcess * excess &&
            share(top_k_ - 1) - share(top_k_) > kClearOfNext * excess && share(n - 1) > kMinOther;
    experts.assign(order.begin(), order.begin() + top_k_);
    std::ranges::sort(experts);
  }
  if (experts != excess_) shared_ = {};
  shared_.follow(reading.step, holds);
  excess_ = std::move(experts);
  excess_size_ = excess;
}

void FaultWatch::judge_changes(const FaultReading& reading) {
  const SpecialisationFrame* specialisation = reading.experts;
  const std::size_t n = unchanged_windows_.size();
  if (!specialisation || specialisation->update_norm_E.size() != n || reading.load->no_load() || reading.lr == 0)
    return;
  const bool any_moves = std::ranges::any_of(specialisation->update_norm_E, [](float norm) { return norm > 0; });
  const bool has_gradients = specialisation->gradient_norm_E.size() == n;
  // If no expert changes, only a gradient and a learning rate show that experts should change.
  const bool judged = any_moves || (has_gradients && reading.lr > 0);
  have_gradients_ = false;
  const bool began = std::ranges::any_of(unchanged_windows_, [](int windows) { return windows > 0; });
  for (std::size_t e = 0; e < n; ++e) {
    const bool used =
        reading.load->mean()[e] > 0 && (!has_gradients || any_moves || specialisation->gradient_norm_E[e] > 0);
    const bool unchanged = judged && used && specialisation->update_norm_E[e] == 0;
    unchanged_windows_[e] = unchanged ? unchanged_windows_[e] + 1 : 0;
    have_gradients_ = have_gradients_ || (unchanged && has_gradients && specialisation->gradient_norm_E[e] > 0);
  }
  if (!began) unchanged_since_ = reading.step;
}

void FaultWatch::findings(std::vector<Finding>& out) const {
  add_bias(out);
  add_auxiliary(out);
  add_constant(out);
  add_excess(out);
  add_unchanged(out);
  add_counted_twice(out);
}

void FaultWatch::add_bias(std::vector<Finding>& out) const {
  if (unchanged_.windows < kFaultWindows) return;
  Finding& finding = out.emplace_back(make(FindingKind::stale_bias, unchanged_.first_step));
  finding.knobs = {&RouterConfig::bias_update_rate, &RouterConfig::bias_format, &RouterConfig::fault_stale_bias};
  finding.title += ": the bias update rate is above 0, but the bias does not change";
  finding.observation = "expert_bias has not changed in any digit for " + std::to_string(unchanged_.windows) +
                        " windows of " + window_text_ + ". The bias update rate is " + decimal(bias_rate_) +
                        ", and the fullest expert has " + decimal(1 + max_vio_, 2) + " times its fair share.";
  finding.meaning =
      "Possible causes: the update hook is not registered for this layer, the model was built again after the "
      "registration, or the bias is stored in BF16 and the update is rounded away.";
}

void FaultWatch::add_auxiliary(std::vector<Finding>& out) const {
  if (flat_.windows < kFaultWindows) return;
  Finding& finding = out.emplace_back(make(FindingKind::flat_auxiliary, flat_.first_step));
  finding.knobs = {&RouterConfig::aux_mode, &RouterConfig::aux_coeff, &RouterConfig::fault_aux_loss};
  const bool absent = aux_ == 0.0;
  finding.title +=
      absent ? ": the auxiliary loss is on, but its value is 0" : ": the auxiliary loss does not follow the load";
  const std::string by_counts =
      std::isnan(aux_expected_) ? "" : "; the layer's counts and scores give " + decimal(aux_expected_);
  finding.observation = "Its value is " + decimal(aux_.value_or(0)) + by_counts + ". This has lasted for " +
                        std::to_string(flat_.windows) + " windows of " + window_text_ + ". The fullest expert has " +
                        decimal(1 + max_vio_, 2) + " times its fair share.";
  finding.meaning = absent
                        ? "The loss is not computed or not added, so it cannot balance the router."
                        : "A loss that stays at its value for an even load has almost no gradient. A usual cause is a "
                          "softmax of scores that are a softmax already.";
}

void FaultWatch::add_constant(std::vector<Finding>& out) const {
  if (constant_.windows < kFaultWindows) return;
  Finding& finding = out.emplace_back(make(FindingKind::no_gradient, constant_.first_step));
  finding.knobs = {&RouterConfig::route_norm, &RouterConfig::top_k};
  finding.title += ": no mixing weight depends on the scores";
  finding.observation = "In " + std::to_string(constant_.windows) + " windows of " + window_text_ +
                        " the share of each expert in the mixing weights equalled its share in the slots to six "
                        "digits, as if all slots had the same weight.";
  finding.meaning =
      "If the mixing weights do not depend on the scores, the gate gets no gradient from the cross-entropy. With one "
      "expert per token a normalised weight is always 1: do not normalise it.";
}

void FaultWatch::add_counted_twice(std::vector<Finding>& out) const {
  if (twice_.windows < kFaultWindows) return;
  Finding& finding = out.emplace_back(make(FindingKind::counted_twice, twice_.first_step));
  finding.knobs = {&RouterConfig::fault_recount, &RouterConfig::top_k, &DataConfig::batch};
  finding.title += ": tokens are counted twice";
  finding.observation = "The counts of a step add up to " + grouped(static_cast<std::int64_t>(counted_)) +
                        ". Tokens of a step times top_k are " + grouped(static_cast<std::int64_t>(slots_)) + ".";
  finding.meaning =
      "Activations that are recomputed in the backward pass run the router again, and it counts its tokens a second "
      "time. Capacities and every bias rule that uses the size of the counts are then wrong. In a log, another "
      "possible cause is that the number of tokens is that of one rank while the counts are those of two ranks.";
}

void FaultWatch::add_excess(std::vector<Finding>& out) const {
  if (shared_.windows < kFaultWindows) return;
  Finding& finding = out.emplace_back(make(FindingKind::shared_excess, shared_.first_step));
  finding.experts = excess_;
  finding.knobs = {&RouterConfig::count_padding, &DataConfig::padding};
  finding.title += ": " + std::to_string(top_k_) + " experts have the same excess load";
  finding.observation = "Experts " + listed(excess_) + ", as many as top_k, have nearly the same load, " +
                        decimal(excess_size_, 2) +
                        " times the fair share above the mean of the others. No other expert has a similar load.";
  finding.meaning =
      "Equal tokens choose the same experts. The usual cause is padding that is counted in the load: the router then "
      "balances padding instead of text.";
}

void FaultWatch::add_unchanged(std::vector<Finding>& out) const {
  const std::vector<int> found =
      experts_where(unchanged_windows_, [](int windows) { return windows >= kFaultWindows; });
  if (found.empty()) return;
  const bool all = found.size() == unchanged_windows_.size();
  Finding& finding = out.emplace_back(make(FindingKind::unchanged_experts, unchanged_since_));
  finding.experts = found;
  finding.knobs = {&OptimizerConfig::fault_missing_experts, &OptimizerConfig::lr, &OptimizerConfig::master_format};
  finding.title +=
      all ? ": the weights of all experts are unchanged" : ": experts get tokens, but their weights are unchanged";
  std::string experts = (found.size() == 1 ? "expert " : "experts ") + listed(found);
  if (all) experts = "all experts";
  finding.observation = "The weights of " + experts + " did not change in any measured step";
  finding.observation += have_gradients_ ? ", although they have a gradient." : ".";
  finding.meaning =
      have_gradients_ ? "Possible causes: the optimizer does not have these weights, or the updates are too small for "
                        "the format of the weights. The router sends tokens to experts that do not learn."
                      : "The experts get no gradient: they are frozen or not connected to the loss.";
}

}  // namespace moescope
