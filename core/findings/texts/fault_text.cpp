// The sentences of findings on faults of a training program and of a gate.
#include <fmt/core.h>

#include <cmath>

#include "core/files/text/words.h"
#include "core/findings/fault_watch.h"
#include "core/findings/gate_watch.h"

namespace moescope {
namespace {

void describe_bias(const LayerFaults& faults, Finding& finding) {
  finding.title += ": the bias update rate is above 0, but the bias does not change";
  finding.observation = fmt::format(
      "expert_bias has not changed in any digit for {} windows of {}. The bias update rate is {}, and the fullest "
      "expert has {} times its fair share.",
      faults.stale_bias.windows, faults.window_text, decimal(faults.bias_rate), decimal(1 + faults.max_vio, 2));
  finding.meaning =
      "Possible causes: the update hook is not registered for this layer, the model was built again after the "
      "registration, or the bias is stored in BF16 and the update is rounded away.";
}

void describe_auxiliary(const LayerFaults& faults, Finding& finding) {
  const bool absent = faults.aux == 0.0;
  finding.title +=
      absent ? ": the auxiliary loss is on, but its value is 0" : ": the auxiliary loss does not follow the load";
  const std::string by_counts =
      std::isnan(faults.aux_expected) ? "" : "; the layer's counts and scores give " + decimal(faults.aux_expected);
  finding.observation = fmt::format(
      "It did not follow an uneven load in {} windows of {}. In the newest window its value is {}{}. The fullest "
      "expert "
      "has {} times its fair share.",
      faults.flat_auxiliary.windows, faults.window_text, decimal(faults.aux.value_or(0)), by_counts,
      decimal(1 + faults.max_vio, 2));
  finding.meaning = absent
                        ? "The loss is not computed or not added, so it cannot balance the router."
                        : "A loss that stays at its value for an even load has almost no gradient. A usual cause is a "
                          "softmax of scores that are a softmax already.";
}

void describe_constant_weights(const LayerFaults& faults, Finding& finding) {
  finding.title += ": no mixing weight depends on the scores";
  finding.observation = fmt::format(
      "In {} windows of {} the share of each expert in the mixing weights equalled its share in the copies to six "
      "digits, as if all copies had the same weight.",
      faults.constant_weights.windows, faults.window_text);
  finding.meaning =
      "If the mixing weights do not depend on the scores, the gate gets no gradient from the cross-entropy. With one "
      "expert per token a normalised weight is always 1: do not normalise it.";
}

void describe_counted_twice(const LayerFaults& faults, Finding& finding) {
  finding.title += ": tokens are counted twice";
  finding.observation = "The counts of a step add up to " + grouped(static_cast<std::int64_t>(faults.counted)) +
                        ". Tokens of a step times top_k are " + grouped(static_cast<std::int64_t>(faults.slots)) + ".";
  finding.meaning =
      "Activations that are recomputed in the backward pass run the router again, and it counts its tokens a second "
      "time. Capacities and every bias rule that uses the size of the counts are then wrong. In a log, another "
      "possible cause is that the number of tokens is that of one rank while the counts are those of two ranks.";
}

void describe_excess(const LayerFaults& faults, Finding& finding) {
  finding.title += fmt::format(": {} experts have the same excess load", finding.experts.size());
  finding.observation = "Experts " + listed(finding.experts) + ", as many as top_k, have nearly the same load, " +
                        decimal(faults.excess, 2) +
                        " times the fair share above the mean of the others. No other expert has a similar load.";
  finding.meaning =
      "Equal tokens choose the same experts. The usual cause is padding that is counted in the load: the router then "
      "balances padding instead of text.";
}

void describe_unchanged(const LayerFaults& faults, Finding& finding) {
  const std::vector<int>& experts = finding.experts;
  const bool all = std::ssize(experts) == faults.n_experts;
  finding.title +=
      all ? ": the weights of all experts are unchanged" : ": experts get tokens, but their weights are unchanged";
  const std::string names = (experts.size() == 1 ? "expert " : "experts ") + listed(experts);
  finding.observation = "The weights of " + (all ? "all experts" : names) + " did not change in any measured step" +
                        (faults.have_gradients ? ", although they have a gradient." : ".");
  finding.meaning =
      faults.have_gradients
          ? "Possible causes: the optimizer does not have these weights, or the updates are too small for "
            "the format of the weights. The router sends tokens to experts that do not learn."
          : "The experts get no gradient: they are frozen or not connected to the loss.";
}

void describe_saturated(const GateFaults& faults, Finding& finding) {
  finding.title += ": the router is saturated";
  finding.observation =
      faults.softmax ? "The entropy of a token's scores is " + decimal(faults.at_ends, 2) +
                           " nats: one expert has nearly all of the score, and the other chosen experts score almost 0."
                     : percent(faults.at_ends) + " of its scores are at the ends of their range, above 0.71 or under " +
                           decimal(1.0 / (8.0 * faults.experts.size()), 2) + ".";
  finding.observation += " The score margin is " + decimal(faults.margin, 2) + ".";
  finding.meaning = faults.softmax
                        ? "A saturated softmax changes little with its logits, so that the gate learns almost nothing. "
                        : "A saturated sigmoid changes little with its logit, so that the gate learns almost nothing. ";
  finding.meaning +=
      "Bias and rounding decide between experts with equal scores, and the load may oscillate with them at any bias "
      "update rate.";
}

void describe_uninformative(const GateFaults& faults, Finding& finding) {
  finding.title += ": the router gives every token the same scores";
  finding.observation = "The mutual information of token and score is " + decimal(faults.information, 2) +
                        " nats, the score margin " + decimal(faults.margin, 2) + ".";
  finding.meaning =
      "The choice of experts does not depend on the token: expert_bias and differences in the last digits decide it "
      "for whole batches, and the load may oscillate with them at any bias update rate.";
}

void describe_contradiction(const GateFaults& faults, Finding& finding) {
  const std::vector<int>& experts = finding.experts;  // all of them are favoured by the gate, or all are ignored
  const GateFaults::Expert& worst = faults.experts[experts.front()];
  const bool favoured = worst.strong > 0;
  finding.title += favoured ? ": the bias holds back an expert that the gate favours"
                            : ": the bias gives tokens to an expert that the gate ignores";
  finding.observation = fmt::format(
      "Expert {} has {} times its fair share of the tokens at a bias {}{} the layer's mean, and its mean mixing weight "
      "is {} times the average",
      experts.front(), decimal(worst.share, 2), decimal(std::fabs(worst.bias), 2), favoured ? " below" : " above",
      decimal(worst.weight, 2));
  if (experts.size() > 1) finding.observation += "; the same holds for " + listed(std::span(experts).subspan(1));
  finding.observation += ".";
  finding.meaning = favoured
                        ? "The gate gives this expert a high weight where it is chosen: its scores would bring it more "
                          "tokens than the bias allows."
                        : "The load looks even, but the output of this expert has almost no weight: the bias brings it "
                          "tokens, and the gate has not learnt to use them.";
}

}  // namespace

void describe(const LayerFaults& faults, Finding& finding) {
  using enum FindingKind;
  if (finding.kind == stale_bias) describe_bias(faults, finding);
  if (finding.kind == flat_auxiliary) describe_auxiliary(faults, finding);
  if (finding.kind == no_gradient) describe_constant_weights(faults, finding);
  if (finding.kind == shared_excess) describe_excess(faults, finding);
  if (finding.kind == counted_twice) describe_counted_twice(faults, finding);
  if (finding.kind == unchanged_experts) describe_unchanged(faults, finding);
}

void describe(const GateFaults& faults, Finding& finding) {
  using enum FindingKind;
  if (finding.kind == saturated) describe_saturated(faults, finding);
  if (finding.kind == uninformative) describe_uninformative(faults, finding);
  if (finding.kind == bias_against_gate) describe_contradiction(faults, finding);
}

}  // namespace moescope
