#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/files/text/words.h"
#include "core/findings/auxiliary_watch.h"
#include "core/findings/drop_watch.h"
#include "core/findings/expert_watch.h"
#include "core/findings/fault_watch.h"
#include "core/findings/findings.h"
#include "core/findings/imbalance_watch.h"
#include "core/findings/interventions.h"
#include "core/findings/load_evidence.h"
#include "core/findings/load_watch.h"
#include "core/findings/loss_watch.h"
#include "core/findings/shift_watch.h"
#include "core/findings/swap_watch.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"
#include "core/recording/history/router_window.h"
#include "core/recording/history/step_axis.h"

namespace moescope {
namespace {

constexpr std::int64_t kSettled = 170;  // steps before a jump can be detected
constexpr std::int64_t kOscillationLoads = 100;
constexpr double kLoadsOfWindow = 5;  // least number of loads in a window of RecentLoad

// That of the first layer: the figures over all layers come before it.
const RouterFrame* first_router(const TelemetryFrame* frame) {
  if (!frame) return nullptr;
  const auto first = std::ranges::find_if(frame->routers, [](const RouterFrame& router) { return router.layer >= 0; });
  return first == frame->routers.end() ? nullptr : &*first;
}

// The kinds of a check, and stronger kinds, which say more than a passed check would.
struct KindsOfCheck {
  std::vector<FindingKind> kinds, stronger = {};
};

class Checking {
 public:
  Checking(const History& history, std::span<const Finding> findings)
      : history_(history),
        findings_(findings),
        settings_(history),
        steps_(logged_steps(history)),
        evidence_(load_evidence(history)),
        is_checkpoint_(run_origin(history.info()) == RunOrigin::checkpoint) {}
  void run() {
    losses();
    gradients();
    drops();
    loads();
    number_formats();
  }
  Checks checks;
  CheckedKinds kinds;

 private:
  bool is_found(const KindsOfCheck& check) const {
    return std::ranges::any_of(findings_, [&](const Finding& finding) {
      const auto has = [&](const std::vector<FindingKind>& list) {
        return std::ranges::find(list, finding.kind) != list.end();
      };
      return finding.run == history_.info().run && (has(check.kinds) || has(check.stronger));
    });
  }
  void passed(const KindsOfCheck& check, std::string words) {
    if (is_found(check)) return;
    checks.passed.push_back(std::move(words));
    kinds.passed.insert(kinds.passed.end(), check.kinds.begin(), check.kinds.end());
  }
  void needs(const KindsOfCheck& check, const std::string& what, const std::string& needed) {
    if (is_found(check)) return;
    checks.not_checked.push_back(what + ": needs " + needed + ".");
    kinds.not_checked.insert(kinds.not_checked.end(), check.kinds.begin(), check.kinds.end());
  }
  // Passes the check if there are enough logged steps for a condition that lasts for this many steps.
  void after(std::int64_t steps, const KindsOfCheck& check, const char* what, std::string words) {
    if (steps_.lasts(steps)) return passed(check, std::move(words));
    const std::int64_t needed = steps_.needed(steps);
    std::string unit = "step";
    if (is_checkpoint_) unit = "batch";
    if (needed < steps) unit = "logged step";
    const std::string needed_loads = counted(needed, unit.c_str(), (unit + (unit == "batch" ? "es" : "s")).c_str());
    needs(check, what, needed_loads + "; so far there " + (steps_.loads == 1 ? "is " : "are ") + grouped(steps_.loads));
  }
  // Passes the check if there are enough loads for a condition that lasts for this many steps.
  void after_loads(std::int64_t steps, const KindsOfCheck& check, const char* what, std::string words) {
    if (evidence_.lasts(steps)) return passed(check, std::move(words));
    const LoadSpan& span = evidence_.span;
    const bool every_step = span.needed(steps) == steps;
    const std::string so_far = every_step ? grouped(span.loads) : loads_text(span);
    needs(check, what, needed_text(steps) + "; so far there " + (span.loads == 1 ? "is " : "are ") + so_far);
  }
  std::string needed_text(std::int64_t steps) const {
    const std::int64_t needed = evidence_.span.needed(steps);
    if (needed != steps) return counted(needed, "load", "loads");
    return is_checkpoint_ ? counted(needed, "batch", "batches") : counted(needed, "step", "steps");
  }
  // True if the loads have too few tokens to show that an expert lacks tokens.
  bool needs_tokens(const char* what) {
    if (evidence_.expected >= kExpected) return false;
    using enum FindingKind;
    needs({{dead, starved, underused}, {collapsed}}, what,
          "loads in which an expert should have had " + decimal(kExpected) + " tokens; so far it should have had " +
              decimal(evidence_.expected));
    return true;
  }
  // Tokens of as many loads as the watches judge together; 0: not known.
  std::int64_t tokens_of_window() const {
    if (evidence_.span.loads == 0) return 0;
    const double tokens_per_load =
        evidence_.expected * history_.info().n_experts / std::max(1, history_.info().top_k) / evidence_.span.loads;
    const double loads = std::max(kLoadsOfWindow, kMeanSteps / evidence_.span.interval());
    return static_cast<std::int64_t>(tokens_per_load * std::min(loads, static_cast<double>(evidence_.span.loads)));
  }

  void losses() {
    using enum FindingKind;
    if (!history_.has_values(Metric::ce_loss))
      return needs({{loss_not_finite, loss_spike, loss_stuck, loss_unlogged, auxiliary_dominates}}, "loss",
                   "the loss, which no step has");
    passed({{loss_not_finite}, {loss_unlogged}}, "The loss was finite at every step.");
    if (!is_checkpoint_)
      after(kMeanSteps, {{loss_spike, loss_stuck}}, "spikes of the loss", "The loss has no spike and no lasting rise.");
    if (!is_checkpoint_)
      after(kMeanSteps, {{loss_unlogged}}, "end of the loss", "The loss is logged up to the newest step.");
    auxiliaries();
  }

  void gradients() {
    const KindsOfCheck check{{FindingKind::gradient_norm}};
    if (history_.has_values(Metric::grad_norm))
      after(kMeanSteps, check, "gradient norm",
            "The gradient norm did not grow " + grouped(static_cast<std::int64_t>(kGrownGradient)) + "-fold.");
    else if (!is_checkpoint_)
      needs(check, "gradient norm", "the gradient norm, which no step has");
  }

  void drops() {
    if (history_.info().all_layers_dense() || is_checkpoint_) return;
    const KindsOfCheck check{{FindingKind::dropped_tokens}};
    if (!settings_.may_drop(last_))
      passed(check, "The settings drop no copy of a token.");
    else if (history_.has_values(Metric::dropped_fraction))
      after(kDroppedLoads, check, "dropped tokens",
            "No layer drops " + percent(kMaxDroppedShare) + " of the copies of tokens.");
    else
      needs(check, "dropped tokens", "the share of dropped copies, which no step has");
  }

  // Without its coefficient, a logged auxiliary loss cannot be compared with the cross-entropy.
  void auxiliaries() {
    const KindsOfCheck check{{FindingKind::auxiliary_dominates}};
    const AuxiliaryFactors factors = settings_.auxiliary_factors(last_);
    const bool has_balance = history_.has_values(Metric::aux_loss), has_z = history_.has_values(Metric::z_loss);
    if (!has_balance && !has_z) {
      if (run_origin(history_.info()) == RunOrigin::log && !history_.info().all_layers_dense() &&
          !settings_.balance(last_).has_no_auxiliary)
        needs(check, "auxiliary losses", "the auxiliary loss or the z-loss, which no step has");
      else
        passed(check, "No auxiliary loss outweighs the cross-entropy.");
    } else if ((has_balance && !factors.balance) || (has_z && !factors.z)) {
      needs(check, "auxiliary losses",
            std::string("the coefficient of the ") +
                (has_balance && !factors.balance ? "auxiliary loss (" + settings_.name_of(&RouterConfig::aux_coeff)
                                                 : "z-loss (" + settings_.name_of(&RouterConfig::z_coeff)) +
                "), because programs log the loss before it");
    } else {
      passed(check, "No auxiliary loss outweighs the cross-entropy.");
    }
  }

  void loads() {
    using enum FindingKind;
    const RunInfo& info = history_.info();
    if (info.all_layers_dense()) return;
    const auto frame = history_.frame_at(INT64_MAX);
    const RouterFrame* router = first_router(frame.get());
    const bool is_log = run_origin(info) == RunOrigin::log;
    if (info.n_experts == 0 || info.moe_layers.empty() || !router || router->tokens_per_expert.empty()) {
      needs({{collapsed, collapsing, dead, no_recovery, starved, underused, hot, uneven, uneven_ranks, uneven_batches,
              swapped_layers, oscillating_bias, stale_bias, flat_auxiliary, unchanged_experts, counted_twice,
              shared_excess, load_shift, alternating_texts}},
            "load of the experts", "tokens_per_expert, which no step has");
    } else {
      experts();
      layers();
      if (!is_checkpoint_) {
        oscillation(*router);
        jumps();
        faults(*router, frame->aux_loss);
      }
    }
    const RouterFrame no_router;
    scores(router ? *router : no_router);
    if (is_log)
      needs({{by_hand}}, "settings that were changed by hand", "a recording of this program");
    else if (!is_checkpoint_)
      passed({{by_hand}}, "No setting overrides the router.");
  }

  // Faults of the training program (fault_watch.h).
  void faults(const RouterFrame& router, float aux_of_all) {
    using enum FindingKind;
    const auto check = [this](FindingKind kind, bool is_known, const char* what, const char* needed,
                              const char* words) {
      if (is_known)
        after_loads(kFaultWindows * kMeanSteps, {{kind}}, what, words);
      else
        needs({{kind}}, what, needed);
    };
    const RunInfo& info = history_.info();
    const bool is_ours = run_origin(info) == RunOrigin::training;
    const auto rate = settings_.bias_rate(last_);
    check(stale_bias, rate == 0.0 || (is_ours && !rate) || (rate && !router.expert_bias.empty()), "stale bias",
          "the bias (expert_bias) and its update rate", "No bias that should change stays the same.");
    const bool has_loss = !is_missing(router.aux_loss) || (aux_of_all == 0 && !is_ours);
    check(flat_auxiliary,
          settings_.balance(last_).has_no_auxiliary || (settings_.aux_coeff(last_).value_or(0) > 0 && has_loss),
          "auxiliary loss that does not follow the load",
          "the auxiliary loss of the layer (aux_loss), its coefficient (aux_coeff), and that no copies are dropped",
          "No auxiliary loss ignores the load.");
    check(counted_twice, info.tokens_per_step > 0 && settings_.top_k(last_) > 0, "tokens that are counted twice",
          "tokens_per_step and top_k", "No layer counts its tokens twice.");
    check(shared_excess, info.top_k > 1 && info.n_experts >= 2 * info.top_k + 2, "equal excess of top_k experts",
          "top_k of at least 2 and at least 2 top_k + 2 experts", "No top_k experts have an equal excess of tokens.");
    const auto newest = history_.specialisation_layer_at(router.layer, last_);
    const auto has_norms = [&](const SpecialisationFrame& values) {
      return std::ssize(values.update_norm_E) == info.n_experts;
    };
    check(unchanged_experts, newest && std::ranges::any_of(newest->specialisation, has_norms),
          "experts that do not change", "the norm of each expert's update",
          "The weights of every expert that gets tokens change.");
  }

  void experts() {
    using enum FindingKind;
    const auto for_steps = [this](std::int64_t steps) { return " for " + needed_text(steps) + "."; };
    if (needs_tokens("dead experts, starved experts, underused experts")) return;
    after_loads(kDeadSteps, {{dead}, {collapsed}}, "dead experts",
                "No expert is dead: none was without a token" + for_steps(kDeadSteps));
    after_loads(kStarvedSteps, {{starved}, {dead, collapsed}}, "starved experts",
                "No expert is starved: none had under " + percent(kStarvedShare) + " of its fair share" +
                    for_steps(kStarvedSteps));
    after_loads(kUnderusedSteps, {{underused}, {starved, dead, collapsed}}, "underused experts",
                "No layer has many underused experts, with under " + decimal(kUnderusedShare) + " of the fair share" +
                    for_steps(kUnderusedSteps));
  }

  // Returns a layer that has not collapsed with one expert per token, as is assumed if the number is not known, but has
  // with as many as its fullest expert allows; nullopt: there is none.
  std::optional<LayerWindow> layer_that_may_have_collapsed() const {
    if (history_.info().top_k > 0 || history_.steps().empty()) return std::nullopt;
    for (LayerWindow& layer : router_window(history_, history_.steps().last).layers) {
      const double experts = layer.utilisation.size(), max_top_k = std::floor(experts / (1 + layer.max_vio));
      const double in_use = std::exp(layer.entropy * std::log(experts));
      if (max_top_k > 1 && in_use - max_top_k < kCollapsedUse * (experts - max_top_k)) return layer;
    }
    return std::nullopt;
  }

  void layers() {
    using enum FindingKind;
    const RunInfo& info = history_.info();
    if (const auto layer = layer_that_may_have_collapsed())
      needs({{collapsed, collapsing}}, "collapse",
            fmt::format(
                "the experts per token (--top-k, or What was read): with 1, as assumed, layer {} has not collapsed "
                "for long, with {:.0f} it may have",
                layer->layer, std::floor(layer->utilisation.size() / (1 + layer->max_vio))));
    else if (LoadWatch::can_tell_collapse(info, tokens_of_window()))
      after_loads(kEarlySteps, {{collapsed, collapsing}}, "collapse", "No layer has collapsed or is collapsing.");
    else
      needs({{collapsed, collapsing}}, "collapse",
            "more experts or more tokens per step: a balanced router must use at least top_k + 2 experts");
    fullest();
    if (!ImbalanceWatch::can_tell_ranks(info.n_experts, info.ranks))
      needs({{uneven_ranks}}, "uneven ranks",
            fmt::format("at least {} experts on each of two or more ranks", kMinNeighbours));
    else
      after_loads(kUnevenRankSteps, {{uneven_ranks}, {hot, collapsed}}, "uneven ranks",
                  std::string("No group of neighbouring experts ") + (info.ranks > 1 ? "on one rank " : "") + "had " +
                      decimal(kUnevenRank) + " times an even load for " + needed_text(kUnevenRankSteps) + ".");
    after_loads(kUnevenBatchSteps, {{uneven_batches}, {uneven, hot, collapsed}}, "uneven batches",
                "Single batches are not far more uneven than many batches together.");
  }

  // With few tokens the fullest expert has as many times its fair share by chance as an expert that is too full.
  void fullest() {
    using enum FindingKind;
    const RunInfo& info = history_.info();
    const int top_k = std::max(1, info.top_k);
    const double max_possible_vio = static_cast<double>(info.n_experts) / top_k - 1;
    const double hot_share = std::min(kHotShare, 1 + kHotShareOfRange * max_possible_vio),
                 uneven_share = 1 + std::min(kUnevenVio, kUnevenWay * max_possible_vio);
    const float floor = max_vio_noise_floor(tokens_of_window(), top_k, info.n_experts);
    const double chance = is_missing(floor) ? 0 : static_cast<double>(floor);
    const auto check = [&](double share, std::int64_t steps, const KindsOfCheck& kinds_of_check, const char* what,
                           const std::string& words) {
      if (1 + 2 * chance > share)
        needs(kinds_of_check, what,
              "more tokens: by chance alone the fullest expert has " + decimal(1 + chance) + " times its fair share");
      else
        after_loads(steps, kinds_of_check, what,
                    words + decimal(share) + " times its fair share for " + needed_text(steps) + ".");
    };
    check(hot_share, kHotSteps, {{hot}, {collapsed}}, "hot experts", "No expert is hot: none had ");
    check(uneven_share, kUnevenSteps, {{uneven}, {hot, no_recovery, collapsed}}, "lasting imbalance",
          "No layer stays uneven: the fullest expert did not get ");
  }

  void jumps() {
    using enum FindingKind;
    after_loads(kSettled + kRecoverySteps, {{no_recovery, load_shift}}, "jumps of the load", "The load did not jump.");
    if (history_.info().moe_layers.size() > 1)
      after_loads(kSettled + kSwappedSteps, {{swapped_layers}}, "exchanged layers",
                  "No two layers have exchanged their loads.");
    else
      needs({{swapped_layers}}, "exchanged layers", "two MoE layers");
  }

  void oscillation(const RouterFrame& router) {
    const KindsOfCheck check{{FindingKind::oscillating_bias, FindingKind::alternating_texts}};
    const auto frame = history_.frame_at(last_);
    const auto before = history_.frame_at(frame->step - 1);
    const RouterFrame* earlier = first_router(before.get());
    const std::int64_t between = earlier ? frame->step - before->step : 1;
    const bool has_biases = earlier && !earlier->expert_bias.empty() && !router.expert_bias.empty() && between <= 2;
    const bool is_known = has_biases || settings_.bias_rate(last_);
    const char* const what = "oscillation by the bias";
    if (!is_known || is_missing(history_.value_at(Metric::margin, router.layer, last_)))
      needs(check, what, "the bias of successive steps (expert_bias), or its rate, and the score margin");
    else if (evidence_.span.loads < kOscillationLoads)
      needs(check, what, grouped(kOscillationLoads) + " loads; so far there are " + grouped(evidence_.span.loads));
    else
      passed(check, "The load does not oscillate with the bias.");
  }

  void scores(const RouterFrame& router) {
    using enum FindingKind;
    if (run_origin(history_.info()) == RunOrigin::training && settings_.constant_weights(last_))
      needs({{no_gradient}}, "router without gradient", "a step that trains the router");
    else if (run_origin(history_.info()) == RunOrigin::training)
      passed({{no_gradient}}, "The settings give every router a gradient.");
    else if (router.gate_mass.empty() && !is_checkpoint_)
      needs({{no_gradient}}, "router without gradient",
            "gate_mass in the object of each layer: the experts' shares of the mixing weights");
    else if (!is_checkpoint_)
      after_loads(kFaultWindows * kMeanSteps, {{no_gradient}}, "router without gradient",
                  "No router has constant mixing weights.");
    if (router.gate_mass.empty() || router.expert_bias.empty())
      needs({{bias_against_gate}}, "bias against gate", "expert_bias and gate_mass");
    else
      after_loads(3 * kMeanSteps, {{bias_against_gate}}, "bias against gate", "No bias contradicts its gate.");
    if (is_missing(router.mutual_information))
      needs({{saturated, uninformative}}, "scores of the router", "their histograms, entropy and mutual information");
    else
      after_loads(3 * kMeanSteps, {{saturated, uninformative}}, "scores of the router",
                  "No router is saturated or gives every token the same scores.");
  }

  void number_formats() {
    using enum FindingKind;
    const KindsOfCheck check{{underflow, clipping, low_sqnr}};
    if (history_.quant_frame_at(INT64_MAX)) {
      passed(check, "Number formats: few values flushed to zero, no costly clipping, no low SQNR of an operand.");
    } else if (history_.info().config_toml.empty()) {
      needs(check, "number formats", "statistics of quantized operands, which no step has");
    } else {
      checks.not_checked.push_back("number formats: nothing is quantized in this run.");
      kinds.not_checked.insert(kinds.not_checked.end(), check.kinds.begin(), check.kinds.end());
    }
  }

  const History& history_;
  std::span<const Finding> findings_;
  Interventions settings_;
  std::int64_t last_ = history_.steps().last;
  LoadSpan steps_;
  LoadEvidence evidence_;
  bool is_checkpoint_;  // a run of texts through a checkpoint; its weights are the same in all steps
};

}  // namespace

Checks checks_of(const History& history, std::span<const Finding> findings) {
  Checking checking(history, findings);
  checking.run();
  return std::move(checking.checks);
}

CheckedKinds checked_kinds(const History& history, std::span<const Finding> findings) {
  Checking checking(history, findings);
  checking.run();
  return std::move(checking.kinds);
}

}  // namespace moescope
