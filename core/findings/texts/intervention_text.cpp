// The sentences of interventions.
#include <fmt/core.h>

#include <array>

#include "core/files/text/words.h"
#include "core/findings/interventions.h"

namespace moescope {
namespace {

using Forms = std::vector<std::string>;  // from long to short; empty if not known

Forms bias_forms(const RouterBalance& balance) {
  if (balance.is_by_quantiles) return {"bias by quantiles", "quantiles"};
  if (!balance.other.empty()) {
    constexpr std::string_view kSame = "balance = ";  // "Balance: " stands before it
    const std::string words = balance.other.substr(balance.other.starts_with(kSame) ? kSame.size() : 0);
    return {words, words};
  }
  if (!balance.bias_rate) return {};
  return {"bias update rate " + decimal(*balance.bias_rate), "bias " + decimal(*balance.bias_rate)};
}

Forms auxiliary_forms(const RouterBalance& balance) {
  if (balance.has_no_auxiliary) return {"no auxiliary loss", ""};
  if (!balance.aux_coeff) return {};
  return {"auxiliary loss " + decimal(*balance.aux_coeff), "auxiliary " + decimal(*balance.aux_coeff)};
}

// Returns "No balancing: bias_update_rate = 0, aux_coeff = 0."
std::string nothing_text(const RouterBalance& balance) {
  if (balance.stated.empty()) return {};
  return "No balancing: " + joined(balance.stated, ", ") + "." +
         (balance.drops ? " Copies beyond the capacity are dropped: " + joined(balance.stated_drops, ", ") + "." : "");
}

}  // namespace

Forms balance_text(const RouterBalance& balance) {
  if (balance.is_forced) return {"Balance: forced, whatever the scores", "Balance: forced"};
  if (balance.is_nothing) return {"No balancing: bias update rate 0, no auxiliary loss", "No balancing"};
  std::array<std::string, 2> forms;
  for (const Forms& words : {bias_forms(balance), auxiliary_forms(balance)})
    for (std::size_t form = 0; form < words.size(); ++form)
      if (!words[form].empty()) forms[form] += (forms[form].empty() ? "Balance: " : ", ") + words[form];
  Forms texts;
  if (!forms[0].empty() && balance.drops && balance.capacity_factor)
    texts.push_back(forms[0] + ", dropping beyond capacity " + decimal(*balance.capacity_factor));
  for (const std::string& form : forms)
    if (!form.empty()) texts.push_back(form);
  return texts;
}

std::string by_hand_text(Setting setting, const RouterConfig& router) {
  if (setting == &RouterConfig::killed_experts)
    return "Experts " + router.killed_experts + " cannot be chosen (layer:expert).";
  if (setting == &RouterConfig::pinned_bias) return "expert_bias is held at " + router.pinned_bias + ".";
  if (setting == &RouterConfig::frozen) return "The gates and expert_bias are frozen.";
  if (setting == &RouterConfig::force_balance)
    return "Experts are chosen in turn, whatever the scores are: the load is forced to be even.";
  return "Noise of " + decimal(router.gate_noise, 3) + " is added to the logits that choose experts.";
}

void describe_no_gradient(bool has_auxiliary, Finding& finding) {
  finding.title = has_auxiliary ? "Only the auxiliary losses train the router" : "Nothing trains the router";
  finding.observation =
      "router.top_k is 1, and router.route_norm divides the only mixing weight by itself: the weight is route_scale, "
      "whatever the score is.";
  finding.meaning =
      "The cross-entropy does not depend on the scores, so that none of its gradient reaches the gates. The choice of "
      "experts is decided by the initial weights, expert_bias" +
      std::string(has_auxiliary ? ", the auxiliary losses" : "") +
      " and weight decay. Without route_norm, or with a top_k of 2, the gates learn from the text.";
}

std::string causes_text(const Causes& causes) {
  std::string text;
  if (causes.killed > 0)
    text +=
        " router.killed_experts has switched off " + counted(causes.killed, "expert", "experts") + " of this layer.";
  for (const Causes::ChosenBias& bias : causes.biases)
    text += fmt::format(" The bias of expert {}{}{}{}", bias.expert, bias.is_pinned ? " is held at " : " began at ",
                        bias.value, bias.is_pinned ? " (router.pinned_bias)." : " (router.initial_bias).");
  if (causes.is_frozen) text += " The gates and expert_bias are frozen (router.frozen).";
  if (causes.is_forced) text += " Experts are chosen in turn (router.force_balance), whatever the scores are.";
  if (causes.gate_noise > 0)
    text += " router.gate_noise adds noise of " + decimal(causes.gate_noise, 3) + " to the logits that choose experts.";
  if (causes.balance) text += " " + nothing_text(*causes.balance);
  if (!causes.changes.empty())
    text += (causes.is_jump ? " Changed by hand just before: " : " Changed by hand before the finding: ") +
            joined(causes.changes, "; ",
                   [](const Marker& change) { return change.text + " at step " + grouped(change.step); }) +
            ".";
  for (const Marker& note : causes.notes) text += " Note near this step: " + note.text + ".";
  return text;
}

}  // namespace moescope
