#include "core/findings/fault_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
      unchanged_windows_(std::max(0, info.n_experts), 0) {
  faults_.n_experts = info.n_experts;
}

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
  faults_.max_vio = max_vio;
  if (!reading.load->no_load()) faults_.window_text = loads_text(reading.load->window_loads());
}

void FaultWatch::judge_bias(const FaultReading& reading, double max_vio) {
  const std::vector<float>& bias = reading.router->expert_bias;
  if (bias.empty()) return;  // not logged at this step
  const bool should_move = reading.bias_rate.value_or(0) > 0 && !reading.bias_is_held && max_vio > kFaultUneven;
  faults_.stale_bias.follow(reading.step, should_move && bias == bias_);
  bias_ = bias;
  faults_.bias_rate = reading.bias_rate.value_or(0);
}

void FaultWatch::judge_auxiliary(const FaultReading& reading, double max_vio) {
  // If a log has only the sum over all layers, the sum shows the loss of a layer only if the sum is 0.
  const bool by_layer = !is_missing(reading.router->aux_loss);
  const double value = by_layer ? reading.router->aux_loss : reading.aux_of_all;
  const double coeff = reading.aux_coeff.value_or(0);
  if (!(coeff > 0) || !(by_layer || (value == 0 && !reading.aux_is_ours))) {
    faults_.aux.reset();
    faults_.flat_auxiliary = {};
    return;
  }
  const bool unchanged = faults_.aux && std::fabs(value - *faults_.aux) <= kFlatAuxiliary * std::fabs(value);
  const double even = even_auxiliary(value, coeff, reading.aux_is_ours, top_k_);
  // A log whose counts include padding may have an auxiliary loss that does not.
  const bool padded = !reading.aux_is_ours && faults_.shared_excess.windows > 0;
  faults_.aux_expected = padded ? std::nan("") : auxiliary_by_counts(*reading.router) * even;
  const double excess = value - even, expected = faults_.aux_expected - even;
  const bool too_small = expected > kExpectedExcess * even && excess < kTooSmall * expected;
  const bool uneven = max_vio > kFaultUneven;
  const bool is_by_counts = reading.aux_is_ours && value != 0;
  const bool says_nothing = is_by_counts ? too_small : value == 0 || unchanged || too_small;
  // At an even load, a flat loss is right.
  const bool tells = is_by_counts ? expected > kExpectedExcess * even : uneven || !says_nothing;
  faults_.even_windows = tells ? 0 : faults_.even_windows + 1;
  if (tells || faults_.even_windows > kEvenWindows)
    faults_.flat_auxiliary.follow(reading.step, tells && says_nothing && has_information(*reading.router));
  faults_.aux = value;
}

void FaultWatch::judge_weights(const FaultReading& reading) {
  if (trained_here_ || reading.router->gate_mass.empty()) return;  // empty: not logged at this step
  faults_.constant_weights.follow(reading.step, has_constant_weights(*reading.router));
}

void FaultWatch::judge_counts(const FaultReading& reading) {
  const std::vector<std::uint32_t>& counts = reading.router->tokens_per_expert;
  if (counts.empty() || reading.slots <= 0) return;
  faults_.counted = std::accumulate(counts.begin(), counts.end(), 0.0);
  faults_.slots = reading.slots;
  faults_.counted_twice.follow(reading.step,
                               std::fabs(faults_.counted - 2 * faults_.slots) < kTwice * 2 * faults_.slots);
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
  if (experts != faults_.excess_experts) faults_.shared_excess = {};
  faults_.shared_excess.follow(reading.step, holds);
  faults_.excess_experts = std::move(experts);
  faults_.excess = excess;
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
  faults_.have_gradients = false;
  const bool began = std::ranges::any_of(unchanged_windows_, [](int windows) { return windows > 0; });
  for (std::size_t e = 0; e < n; ++e) {
    const bool used =
        reading.load->mean()[e] > 0 && (!has_gradients || any_moves || specialisation->gradient_norm_E[e] > 0);
    const bool unchanged = judged && used && specialisation->update_norm_E[e] == 0;
    unchanged_windows_[e] = unchanged ? unchanged_windows_[e] + 1 : 0;
    faults_.have_gradients =
        faults_.have_gradients || (unchanged && has_gradients && specialisation->gradient_norm_E[e] > 0);
  }
  if (!began) unchanged_since_ = reading.step;
}

void FaultWatch::findings(std::vector<Finding>& out) const {
  const auto add = [&](FindingKind kind, const ConsecutiveWindows& fault, std::vector<Setting> knobs,
                       std::vector<int> experts = {}) {
    if (fault.windows < kFaultWindows) return;
    Finding& finding = out.emplace_back(layer_finding(kind, run_, layer_, {fault.first_step, last_step_}));
    finding.experts = std::move(experts);
    finding.knobs = std::move(knobs);
    describe(faults_, finding);
  };
  add(FindingKind::stale_bias, faults_.stale_bias,
      {&RouterConfig::bias_update_rate, &RouterConfig::bias_format, &RouterConfig::fault_stale_bias});
  add(FindingKind::flat_auxiliary, faults_.flat_auxiliary,
      {&RouterConfig::aux_mode, &RouterConfig::aux_coeff, &RouterConfig::fault_aux_loss});
  add(FindingKind::no_gradient, faults_.constant_weights, {&RouterConfig::route_norm, &RouterConfig::top_k});
  add(FindingKind::shared_excess, faults_.shared_excess, {&RouterConfig::count_padding, &DataConfig::padding},
      faults_.excess_experts);
  add(FindingKind::counted_twice, faults_.counted_twice,
      {&RouterConfig::fault_recount, &RouterConfig::top_k, &DataConfig::batch});
  const std::vector<int> unchanged =
      experts_where(unchanged_windows_, [](int windows) { return windows >= kFaultWindows; });
  if (unchanged.empty()) return;
  add(FindingKind::unchanged_experts, {kFaultWindows, unchanged_since_},
      {&OptimizerConfig::fault_missing_experts, &OptimizerConfig::lr, &OptimizerConfig::master_format}, unchanged);
}

}  // namespace moescope
