#include "core/findings/checks.h"

#include <algorithm>
#include <initializer_list>

#include "core/findings/expert_watch.h"
#include "core/findings/imbalance_watch.h"
#include "core/findings/interventions.h"
#include "core/findings/load_watch.h"
#include "core/findings/shift_watch.h"
#include "core/findings/swap_watch.h"
#include "core/frame/run_origin.h"
#include "core/history/step_axis.h"
#include "core/io/words.h"

namespace moescope {

namespace {

constexpr std::int64_t kSettled = 170;  // steps before a jump can be detected
constexpr std::int64_t kOscillationLoads = 100;

bool has_values(const History& history, Metric metric) {
  const StepRange steps = history.steps();
  if (steps.empty()) return false;
  const PyramidBin all = history.series(metric, kWholeRun, steps, 1).front();
  return all.finite > 0 || all.non_finite > 0;
}

const RouterFrame* first_router(const TelemetryFrame* frame) {
  return frame && !frame->routers.empty() ? &frame->routers.front() : nullptr;
}

class Checking {
 public:
  Checking(const History& history, std::span<const Finding> findings)
      : history_(history),
        findings_(findings),
        steps_(history.count() > 0 ? counted_steps(history) : 0),
        is_checkpoint_(run_origin(history.info()) == RunOrigin::checkpoint) {}
  Checks all() {
    losses();
    loads();
    number_formats();
    return std::move(checks_);
  }

 private:
  bool is_found(std::initializer_list<FindingKind> kinds) const {
    return std::ranges::any_of(findings_, [&](const Finding& finding) {
      return finding.run == history_.info().run && std::ranges::find(kinds, finding.kind) != kinds.end();
    });
  }
  void passed(std::initializer_list<FindingKind> kinds, std::string words) {
    if (!is_found(kinds)) checks_.passed.push_back(std::move(words));
  }
  // Passes the check if at least this many steps were read.
  void after(std::int64_t steps, std::initializer_list<FindingKind> kinds, const char* what, std::string words) {
    if (steps_ >= steps) return passed(kinds, std::move(words));
    const std::string needed = is_checkpoint_ ? counted(steps, "batch", "batches") : counted(steps, "step", "steps");
    if (!is_found(kinds)) needs(what, needed + "; so far there are " + grouped(steps_));
  }
  void needs(const std::string& what, const std::string& needed) {
    checks_.not_checked.push_back(what + ": needs " + needed + ".");
  }
  void losses();
  void loads();
  void experts();
  void layers();
  void jumps();
  void oscillation(const RouterFrame& router);
  void scores(const RouterFrame& router);
  void number_formats();

  const History& history_;
  std::span<const Finding> findings_;
  std::int64_t steps_;
  bool is_checkpoint_;  // a run of texts through a checkpoint; its weights are the same in all steps
  Checks checks_;
};

void Checking::losses() {
  if (!has_values(history_, Metric::ce_loss)) return needs("loss", "the loss, which no step has");
  passed({FindingKind::loss_not_finite}, "The loss was finite at every step.");
  if (!is_checkpoint_)
    after(kMeanSteps, {FindingKind::loss_spike, FindingKind::loss_stuck}, "spikes of the loss",
          "The loss has no spike and no lasting rise.");
  if (has_values(history_, Metric::aux_loss) || has_values(history_, Metric::z_loss))
    passed({FindingKind::auxiliary_dominates}, "No auxiliary loss outweighs the cross-entropy.");
}

void Checking::loads() {
  const RunInfo& info = history_.info();
  if (info.all_layers_dense()) return;
  const auto frame = history_.frame_at(INT64_MAX);
  const RouterFrame* router = first_router(frame.get());
  if (info.n_experts == 0 || info.moe_layers.empty() || !router || router->tokens_per_expert.empty()) {
    needs("load of the experts", "tokens_per_expert, which no step has");
  } else {
    experts();
    layers();
    if (!is_checkpoint_) {
      oscillation(*router);
      jumps();
    }
  }
  if (router) scores(*router);
  if (run_origin(info) == RunOrigin::log) needs("settings that were changed by hand", "a recording of this program");
}

void Checking::experts() {
  using enum FindingKind;
  after(kDeadSteps, {dead}, "dead experts",
        "No expert is dead: none was without a token for " + grouped(kDeadSteps) + " steps.");
  after(kStarvedSteps, {starved}, "starved experts",
        "No expert is starved: none had under " + percent(kStarvedShare) + " of its fair share for " +
            grouped(kStarvedSteps) + " steps.");
  after(kUnderusedSteps, {underused}, "underused experts",
        "No layer has many underused experts, with under " + decimal(kUnderusedShare) + " of the fair share for " +
            grouped(kUnderusedSteps) + " steps.");
  after(kHotSteps, {hot}, "hot experts",
        "No expert is hot: none had " + decimal(kHotShare) + " times its fair share for " + grouped(kHotSteps) +
            " steps.");
}

void Checking::layers() {
  using enum FindingKind;
  if (LoadWatch::can_tell_collapse(history_.info()))
    after(kMeanSteps, {collapsed, collapsing}, "collapse", "No layer has collapsed or is collapsing.");
  else
    needs("collapse", "more experts or more tokens per step: a balanced router must use at least top_k + 2 experts");
  after(kUnevenSteps, {uneven}, "lasting imbalance",
        "No layer stays uneven: the fullest expert did not get " + decimal(1 + kUnevenVio) +
            " times its fair share for " + grouped(kUnevenSteps) + " steps.");
  const RunInfo& info = history_.info();
  if (!ImbalanceWatch::can_tell_ranks(info.n_experts, info.ranks))
    needs("uneven ranks", "at least " + std::to_string(kLeastNeighbours) + " experts on each of two or more ranks");
  else
    after(kUnevenRankSteps, {uneven_ranks}, "uneven ranks",
          "No group of neighbouring experts on one rank had " + decimal(kUnevenRank) + " times an even load for " +
              grouped(kUnevenRankSteps) + " steps.");
  after(kUnevenBatchSteps, {uneven_batches}, "uneven batches",
        "Single batches are not far more uneven than many batches together.");
}

void Checking::jumps() {
  using enum FindingKind;
  after(kSettled + kRecoverySteps, {no_recovery, load_shift}, "jumps of the load", "The load did not jump.");
  if (history_.info().moe_layers.size() > 1)
    after(kSettled + kSwappedSteps, {swapped_layers}, "exchanged layers", "No two layers have exchanged their loads.");
}

void Checking::oscillation(const RouterFrame& router) {
  if (is_found({FindingKind::oscillating_bias})) return;
  const std::int64_t last = history_.steps().last;
  const auto frame = history_.frame_at(last);
  const auto before = history_.frame_at(frame->step - 1);
  const RouterFrame* earlier = first_router(before.get());
  const std::int64_t between = earlier ? frame->step - before->step : 1;
  const bool has_biases = earlier && !earlier->expert_bias.empty() && !router.expert_bias.empty() && between <= 2;
  const bool is_known = has_biases || Interventions(history_).bias_rate(last);
  const char* const what = "oscillation by the bias";
  if (!is_known || is_missing(history_.value_at(Metric::margin, router.layer, last)))
    needs(what, "the bias of successive steps (expert_bias), or its rate, and the score margin");
  else if (steps_ < kOscillationLoads * between)
    needs(what, grouped(kOscillationLoads) + " logged loads; so far there are " + grouped(steps_ / between));
  else
    checks_.passed.push_back("The load does not oscillate with the bias.");
}

void Checking::scores(const RouterFrame& router) {
  if (router.gate_mass.empty() || router.expert_bias.empty())
    needs("bias against gate", "expert_bias and gate_mass");
  else
    after(3 * kMeanSteps, {FindingKind::bias_against_gate}, "bias against gate", "No bias contradicts its gate.");
  if (is_missing(router.mutual_information))
    needs("scores of the router", "their histograms, entropy and mutual information");
  else
    after(3 * kMeanSteps, {FindingKind::saturated, FindingKind::uninformative}, "scores of the router",
          "No router is saturated or gives every token the same scores.");
}

void Checking::number_formats() {
  using enum FindingKind;
  if (history_.quant_frame_at(INT64_MAX))
    passed({underflow, clipping, low_sqnr},
           "Number formats: no underflow, no costly clipping, no low SQNR of an operand.");
  else if (history_.info().config_toml.empty())
    needs("number formats", "statistics of quantized operands, which no step has");
  else
    checks_.not_checked.push_back("number formats: nothing is quantized in this run.");
}

}  // namespace

Checks checks_of(const History& history, std::span<const Finding> findings) {
  return Checking(history, findings).all();
}

}  // namespace moescope
