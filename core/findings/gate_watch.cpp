#include "core/findings/gate_watch.h"

#include <algorithm>
#include <cmath>

#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr double kGateShare = 0.5;  // of the fair share: a favored expert has more, one held back less than 1 / this

// Returns the share of sigmoid scores at the ends of their range; NaN if the frame has no histogram of scores.
double share_at_ends(const RouterFrame& router, int n_experts) {
  const std::size_t bins = kHalfOctaves;
  if (router.score_chosen.size() != bins || router.score_rejected.size() != bins) return std::nan("");
  const std::size_t low = half_octave_bin(1.0f / (8.0f * static_cast<float>(n_experts)));
  double ends = 0, all = 0;
  for (std::size_t b = 0; b < bins; ++b) {
    const double scores = static_cast<double>(router.score_chosen[b]) + router.score_rejected[b];
    all += scores;
    if (b < low || b + 1 == bins) ends += scores;
  }
  return all > 0 ? ends / all : std::nan("");
}

}  // namespace

GateWatch::GateWatch(int layer, const RunInfo& info)
    : layer_(layer), run_(info.run), n_experts_(info.n_experts), gates_(info.n_experts) {}

void GateWatch::router(const GateReading& reading) {
  margin_ = reading.router->margin;
  note_bias_step(reading);
  judge_scores(reading.step, *reading.router, reading.softmax);
  judge_gates(reading.step, *reading.router);
}

// Takes the step of the bias from the bias rate if that is known, else from the change of the bias between two frames,
// assuming that the direction of each step is random.
void GateWatch::note_bias_step(const GateReading& reading) {
  bias_step_ = {};
  const std::size_t n = n_experts_;
  const RouterFrame& router = *reading.router;
  double step = 0, margin = router.margin;
  if (reading.bias_rate) {
    step = *reading.bias_rate;
  } else if (reading.next && reading.next->expert_bias.size() == n && router.expert_bias.size() == n) {
    for (std::size_t e = 0; e < n; ++e)
      step += std::fabs(reading.next->expert_bias[e] - static_cast<double>(router.expert_bias[e]));
    step /= n_experts_ * std::sqrt(static_cast<double>(reading.steps_to_next));
    if (reading.next->margin > 0) margin = reading.next->margin;
  } else {
    return;
  }
  if (margin > 0) bias_step_ = {true, step / margin, margin, reading.sign_rule};
}

void GateWatch::judge_scores(std::int64_t step, const RouterFrame& router, std::optional<bool> softmax) {
  softmax_ = softmax.value_or(false);
  const double entropy = router.score_entropy;
  at_ends_ = softmax_ ? entropy : share_at_ends(router, n_experts_);
  saturated_.follow(step, softmax && (softmax_ ? entropy < kSingleExpert : at_ends_ > kScoresAtEnds));
  information_ = router.mutual_information;
  uninformative_.follow(step, information_ < kUninformative);  // false if the figure is missing
}

void GateWatch::judge_gates(std::int64_t step, const RouterFrame& router) {
  const std::size_t n = n_experts_;
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
    Gate& gate = gates_[e];
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
  add_saturated(out);
  add_uninformative(out);
  add_gates(out, false);
  add_gates(out, true);
}

void GateWatch::add_saturated(std::vector<Finding>& out) const {
  if (saturated_.windows < kGateWindows) return;
  Finding& finding = out.emplace_back(make(FindingKind::saturated, saturated_.first_step));
  finding.knobs = {&OptimizerConfig::router_lr_factor, &OptimizerConfig::lr, &RouterConfig::z_coeff};
  finding.title += ": the router is saturated";
  finding.observation =
      softmax_ ? "The entropy of a token's scores is " + decimal(at_ends_, 2) +
                     " nats: one expert has nearly all of the score, and the other chosen experts score almost 0."
               : percent(at_ends_) + " of its scores are at the ends of their range, above 0.71 or under " +
                     decimal(1.0 / (8 * n_experts_), 2) + ".";
  finding.observation += " The score margin is " + decimal(margin_, 2) + ".";
  finding.meaning = softmax_
                        ? "A saturated softmax changes little with its logits, so that the gate learns almost nothing. "
                        : "A saturated sigmoid changes little with its logit, so that the gate learns almost nothing. ";
  finding.meaning +=
      "Bias and rounding decide between experts with equal scores, and the load may oscillate with them at any bias "
      "update rate.";
}

void GateWatch::add_uninformative(std::vector<Finding>& out) const {
  if (uninformative_.windows < kGateWindows) return;
  Finding& finding = out.emplace_back(make(FindingKind::uninformative, uninformative_.first_step));
  finding.knobs = {&OptimizerConfig::lr, &OptimizerConfig::router_lr_factor, &RouterConfig::z_coeff};
  finding.title += ": the router gives every token the same scores";
  finding.observation = "The mutual information of token and score is " + decimal(information_, 2) +
                        " nats, the score margin " + decimal(margin_, 2) + ".";
  finding.meaning =
      "The choice of experts does not depend on the token: expert_bias and differences in the last digits decide it "
      "for whole batches, and the load may oscillate with them at any bias update rate.";
}

void GateWatch::add_gates(std::vector<Finding>& out, bool strong) const {
  const auto gate = [&](int expert) -> const Gate& { return gates_[expert]; };
  std::vector<int> found =
      experts_where(gates_, [&](const Gate& gate) { return (strong ? gate.strong : gate.faint) >= kGateWindows; });
  if (found.empty()) return;
  const std::int64_t first_step =
      gate(std::ranges::min(found, {}, [&](int e) { return gate(e).first_step; })).first_step;
  std::ranges::stable_sort(found, {}, [&](int e) { return strong ? -gate(e).weight : gate(e).weight; });
  const Gate& worst = gate(found[0]);
  Finding& finding = out.emplace_back(make(FindingKind::bias_against_gate, first_step));
  finding.experts = found;
  finding.knobs = {&RouterConfig::bias_update_rate, &RouterConfig::route_norm};
  finding.title += strong ? ": the bias holds back an expert that the gate favours"
                          : ": the bias gives tokens to an expert that the gate ignores";
  finding.observation = "Expert " + std::to_string(found[0]) + " has " + decimal(worst.share, 2) +
                        " times its fair share of the tokens at a bias " +
                        decimal(std::fabs(static_cast<double>(worst.bias)), 2) + (strong ? " below" : " above") +
                        " the layer's mean, and its mean mixing weight is " + decimal(worst.weight, 2) +
                        " times the average";
  finding.observation += found.size() > 1 ? "; the same holds for " + listed(std::span(found).subspan(1)) + "." : ".";
  finding.meaning = strong
                        ? "The gate gives this expert a high weight where it is chosen: its scores would bring it more "
                          "tokens than the bias allows."
                        : "The load looks even, but the output of this expert has almost no weight: the bias brings it "
                          "tokens, and the gate has not learnt to use them.";
}

}  // namespace moescope
