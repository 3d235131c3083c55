#include "core/findings/gate_watch.h"

#include <algorithm>
#include <cmath>

namespace moescope {

namespace {

constexpr double kGateShare = 0.5;  // of the fair share: a favored expert has more, one held back less than 1 / this

// Returns the share of sigmoid scores at the ends of their range; NaN if the frame has no histogram of scores.
double share_at_ends(const RouterFrame& router, std::size_t n_experts) {
  const std::size_t bins = kHalfOctaves;
  if (router.score_chosen.size() != bins || router.score_rejected.size() != bins) return std::nan("");
  const std::size_t low = half_octave_bin(1.0f / (8.0f * n_experts));
  double ends = 0, all = 0;
  for (std::size_t b = 0; b < bins; ++b) {
    const double scores = static_cast<double>(router.score_chosen[b]) + router.score_rejected[b];
    all += scores;
    if (b < low || b + 1 == bins) ends += scores;
  }
  return all > 0 ? ends / all : std::nan("");
}

}  // namespace

GateWatch::GateWatch(int layer, const RunInfo& info) : layer_(layer), run_(info.run) {
  faults_.experts.resize(info.n_experts);
}

void GateWatch::router(const GateReading& reading) {
  faults_.margin = reading.router->margin;
  note_bias_step(reading);
  judge_scores(reading.step, *reading.router, reading.softmax);
  judge_gates(reading.step, *reading.router);
}

// Takes the step of the bias from the bias rate if that is known, else from the change of the bias between two frames,
// assuming that the direction of each step is random.
void GateWatch::note_bias_step(const GateReading& reading) {
  bias_step_ = {};
  const std::size_t n = faults_.experts.size();
  const RouterFrame& router = *reading.router;
  double step = 0, margin = router.margin;
  if (reading.bias_rate) {
    step = *reading.bias_rate;
  } else if (reading.next && reading.next->expert_bias.size() == n && router.expert_bias.size() == n) {
    for (std::size_t e = 0; e < n; ++e)
      step += std::fabs(reading.next->expert_bias[e] - static_cast<double>(router.expert_bias[e]));
    step /= n * std::sqrt(reading.steps_to_next);
    if (reading.next->margin > 0) margin = reading.next->margin;
  } else {
    return;
  }
  if (margin > 0) bias_step_ = {true, step / margin, margin, reading.sign_rule};
}

void GateWatch::judge_scores(std::int64_t step, const RouterFrame& router, std::optional<bool> softmax) {
  faults_.softmax = softmax.value_or(false);
  const double entropy = router.score_entropy;
  faults_.at_ends = faults_.softmax ? entropy : share_at_ends(router, faults_.experts.size());
  faults_.saturated.follow(step,
                           softmax && (faults_.softmax ? entropy < kSingleExpert : faults_.at_ends > kScoresAtEnds));
  faults_.information = router.mutual_information;
  faults_.uninformative.follow(step, faults_.information < kUninformative);  // false if the figure is missing
}

void GateWatch::judge_gates(std::int64_t step, const RouterFrame& router) {
  const std::size_t n = faults_.experts.size();
  if (router.expert_bias.size() != n || n == 0) return;
  if (router.gate_mass.size() != n || router.tokens_per_expert.size() != n) return;
  double total = 0, gates = 0, bias = 0;
  for (std::size_t e = 0; e < n; ++e) {
    total += router.tokens_per_expert[e];
    gates += router.gate_mass[e];
    bias += router.expert_bias[e] / static_cast<double>(n);
  }
  if (!(total > 0) || !(gates > 0)) return;
  for (std::size_t e = 0; e < n; ++e) {
    const double share = router.tokens_per_expert[e] / total;
    const double weight = share > 0 ? router.gate_mass[e] / gates / share : 1;
    const double excess = router.expert_bias[e] - bias;
    const double fair = share * n;
    GateFaults::Expert& gate = faults_.experts[e];
    const int before = gate.faint + gate.strong;
    gate.faint = weight < kFaintGate && excess > 0 && fair > kGateShare ? gate.faint + 1 : 0;
    gate.strong = weight > kStrongGate && excess < 0 && fair < 1 / kGateShare ? gate.strong + 1 : 0;
    if (before == 0) gate.first_step = step;
    gate.weight = static_cast<float>(weight);
    gate.bias = static_cast<float>(excess);
    gate.share = static_cast<float>(fair);
  }
}

void GateWatch::findings(std::vector<Finding>& out) const {
  const auto add = [&](FindingKind kind, std::int64_t first_step, std::vector<Setting> knobs,
                       std::vector<int> experts = {}) {
    Finding& finding = out.emplace_back(layer_finding(kind, run_, layer_, {first_step, last_step_}));
    finding.experts = std::move(experts);
    finding.knobs = std::move(knobs);
    describe(faults_, finding);
  };
  if (faults_.saturated.windows >= kGateWindows)
    add(FindingKind::saturated, faults_.saturated.first_step,
        {&OptimizerConfig::router_lr_factor, &OptimizerConfig::lr, &RouterConfig::z_coeff});
  if (faults_.uninformative.windows >= kGateWindows)
    add(FindingKind::uninformative, faults_.uninformative.first_step,
        {&OptimizerConfig::lr, &OptimizerConfig::router_lr_factor, &RouterConfig::z_coeff});
  for (const bool strong : {false, true}) {
    using Expert = GateFaults::Expert;
    std::vector<int> found = experts_where(
        faults_.experts, [&](const Expert& expert) { return (strong ? expert.strong : expert.faint) >= kGateWindows; });
    if (found.empty()) continue;
    const auto expert = [&](int e) -> const Expert& { return faults_.experts[e]; };
    std::ranges::stable_sort(found, {}, [&](int e) { return strong ? -expert(e).weight : expert(e).weight; });
    const int first = std::ranges::min(found, {}, [&](int e) { return expert(e).first_step; });
    add(FindingKind::bias_against_gate, expert(first).first_step,
        {&RouterConfig::bias_update_rate, &RouterConfig::route_norm}, found);
  }
}

}  // namespace moescope
