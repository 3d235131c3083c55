// The sentences on the health of the routers, and what would help.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/files/text/words.h"
#include "core/findings/expert_watch.h"
#include "core/findings/health/health_facts.h"
#include "core/findings/imbalance_watch.h"
#include "core/findings/interventions.h"
#include "core/frame/frame.h"
#include "core/recording/history/router_window.h"
#include "core/recording/marks.h"

namespace moescope {
namespace {

// Returns the first step of the findings of this kind that last.
std::int64_t first_step_of(FindingKind kind, std::span<const Finding> findings) {
  std::int64_t first = INT64_MAX;
  for (const Finding& finding : findings)
    if (finding.ongoing && finding.kind == kind) first = std::min(first, finding.steps.first);
  return first;
}

class HealthText {
 public:
  HealthText(const ScannedRouters& routers, const HealthFacts& facts)
      : routers_(routers),
        facts_(facts),
        history_(routers.history),
        evidence_(routers.evidence),
        load_(routers.load_of(facts.layer)) {}

  // Returns the sentence and its shorter forms.
  std::vector<std::string> forms() const {
    using enum HealthReason;
    if (facts_.reason == no_step) return {"No step has been read yet."};
    if (facts_.reason == all_dense) return {"All layers of this run are dense: there is no router."};
    if (facts_.reason == finding) return forms_of_finding();
    if (facts_.reason == no_loads) return forms_without_loads();
    if (facts_.reason == begun) return forms_of_begun();
    if (facts_.reason == forced)
      return {"Balance is forced: the load does not show what the router would choose." + limits() + elsewhere(),
              "Balance is forced: the load does not show what the router would choose.", "Balance is forced."};
    const auto [uneven, which] = most_uneven();
    if (facts_.reason == healthy) return forms_of_healthy(uneven, which);
    const std::string lacks = lacking_text() + ".";
    return {lacks + " " + uneven + without_tokens_text(), lacks + " " + which, lacks};
  }

 private:
  std::vector<std::string> forms_of_finding() const {
    const Finding& lead = *facts_.finding;
    const std::string begin_text = since_text(lead.steps.first);
    const FindingKindInfo& fault = finding_kind_info(lead.kind);
    if (!fault.layer_phrase || !*fault.layer_phrase || lead.layers.empty())
      return {lead.title + "," + begin_text + "." + limits(), lead.title + "."};
    const std::string worst = fmt::format("ayer {}", facts_.layer);
    std::string detail = facts_.fullest_share > 0 ? fullest() + in_window() : lead.brief;
    if (!detail.empty()) detail = ": " + detail + starved_experts_text();
    const std::string experts = facts_.fullest_share > 0 ? fullest_experts() : lead.brief;
    if (facts_.layers.size() == 1) {
      const std::string head = "L" + worst + " " + fault.layer_phrase;
      std::vector<std::string> forms = {head + begin_text + detail + "." + limits()};
      if (!experts.empty()) forms.push_back(head + begin_text + ": " + experts + starved_experts_text() + ".");
      forms.insert(forms.end(), {head + begin_text + ".", head + "."});
      if (!evidence_.are_totals) forms.push_back("L" + worst + ": " + fault.name + begin_text + ".");
      return forms;
    }
    const std::string head = fmt::format("{} of {} MoE layers {}", facts_.layers.size(),
                                         history_.info().moe_layers.size(), fault.layers_phrase),
                      which = ". Worst: l" + worst;
    const std::int64_t first_step = first_step_of(lead.kind, routers_.findings);
    const std::string first = first_step < lead.steps.first ? ", the first" + since_text(first_step) : "";
    std::vector<std::string> forms = {
        head + " (" + listed(facts_.layers) + ")" + first + which + "," + begin_text + detail + "." + limits(),
        head + which + "," + begin_text + detail + "."};
    if (!experts.empty()) {
      forms.push_back(head + first + which + "," + begin_text + ", where " + experts + starved_experts_text() + ".");
      forms.push_back(head + which + ", where " + experts + starved_experts_text() + ".");
    }
    forms.insert(forms.end(),
                 {head + which + "," + begin_text + ".", head + which + ".", "Worst: l" + worst + begin_text + "."});
    return forms;
  }

  std::vector<std::string> forms_without_loads() const {
    const std::string no_load = "The run has no load of the experts (tokens_per_expert).";
    const std::string uneven = facts_.layer < 0 ? over_all_layers(history_.steps().first) : most_uneven().first;
    if (uneven.empty()) return {no_load, "No load of the experts."};
    return {no_load + " " + uneven, no_load, "No load of the experts."};
  }

  std::vector<std::string> forms_of_begun() const {
    const Finding& begun = *facts_.finding;
    const bool one = begun.experts.size() == 1;
    const std::string layer = fmt::format("Layer {}", facts_.layer), begin_text = since_text(begun.steps.first);
    std::string head = layer + " has been uneven" + begin_text, figures = load_ ? fullest() + in_window() : "";
    std::int64_t needed = kUnevenSteps;
    const auto has_had = [&](const std::string& which) {
      return layer + " has had " + (one ? "an expert " : "experts ") + which + begin_text;
    };
    const auto experts = [&](const char* verb, const char* verb_of_many) {
      return (one ? "expert " : "experts ") + listed(begun.experts) + (one ? verb : verb_of_many);
    };
    if (facts_.settles) {
      head += ", but less than before";
    } else if (begun.kind == FindingKind::dead) {
      head = has_had("without a token");
      figures = experts(" gets", " get") + " no token";
      needed = kDeadSteps;
    } else if (begun.kind == FindingKind::starved) {
      head = has_had("with almost no tokens");
      figures = experts(" gets", " get") + " under " + percent(kStarvedShare) + " of " + (one ? "its" : "their") +
                " fair share";
      needed = kStarvedSteps;
    } else if (begun.kind == FindingKind::hot) {
      head = has_had(one ? "that is far too full" : "that are far too full");
      needed = kHotSteps;
    }
    const std::string rule = facts_.settles ? "" : " It becomes a finding after " + needed_text(needed) + ".";
    if (!figures.empty()) figures = ": " + figures;
    return {head + figures + "." + rule + elsewhere(), head + figures + "." + rule, head + figures + ".", head + ".",
            layer + " is uneven."};
  }

  std::vector<std::string> forms_of_healthy(const std::string& uneven, const std::string& which) const {
    const std::string elsewhere = this->elsewhere(), ended = ended_findings();
    const std::string nobody =
        (evidence_.expected < kExpected ? "No expert is far too full" : "No expert is dead, starved or far too full") +
        (evidence_.are_totals ? since_text(-1) : std::string()) + ".";
    std::vector<std::string> forms = {nobody + " " + uneven + limits() + elsewhere + ended};
    if (!ended.empty()) forms.push_back(nobody + " " + uneven + elsewhere);
    if (!elsewhere.empty()) forms.push_back(uneven + elsewhere);
    forms.insert(forms.end(), {nobody + " " + uneven, uneven, nobody, which});
    return forms;
  }

  // Returns a text on the experts that take most of the tokens, or on the fullest one.
  std::string fullest() const {
    const double share = facts_.fullest_share;
    if (facts_.experts.size() == 1)
      return fmt::format("expert {} gets {} times its fair share", facts_.experts[0], decimal(share));
    return fullest_experts() + " of its token copies";
  }
  std::string fullest_experts() const {
    if (facts_.experts.size() == 1) return fullest();
    return fmt::format("experts {} take {:.0f} %", listed(facts_.experts, kNamedExperts), 100 * facts_.fullest_share);
  }

  // Returns the steps whose loads are summed: " in steps 951 to 1,000"; empty for one total of a whole run.
  std::string in_window() const {
    if (evidence_.are_totals) return {};
    if (!load_->every_step) return " in the newest loads up to step " + grouped(routers_.last_step);
    const StepRange steps = history_.last_steps(kWindowSteps, routers_.last_step);
    return " in " + steps_in_words(steps.first, steps.last);
  }

  // Returns a text on the experts of the layer that are starved; without such a finding, on those that get no tokens.
  std::string starved_experts_text() const {
    const Finding& lead = *facts_.finding;
    if (lead.kind == FindingKind::dead || lead.kind == FindingKind::starved) return {};
    const auto text_on = [&](std::ptrdiff_t n, const char* verb_of_one, const char* verb) {
      return fmt::format("; {} of {} {}", n, history_.info().n_experts, n == 1 ? verb_of_one : verb);
    };
    for (const Finding& finding : routers_.findings)
      if (finding.ongoing && finding.kind == FindingKind::starved && finding.layers == lead.layers)
        return text_on(std::ssize(finding.experts), "is starved", "are starved");
    const std::ptrdiff_t none = load_ ? std::ranges::count(load_->shares, 0.0f) : 0;
    return none > 0 ? text_on(none, "gets none", "get none") : std::string();
  }

  // Returns "Over all layers, MaxVio is 4.95 (2 at step 0), and 37.4 % of the experts get no token (2 % at step 0)."
  // for logs with such figures only; empty if there are none.
  std::string over_all_layers(std::int64_t first_step) const {
    std::string text;
    const auto add = [&](Metric metric, const char* before, const char* behind, auto in_words) {
      const float last = history_.value_at(metric, kWholeRun, INT64_MAX);
      const float first = history_.value_at(metric, kWholeRun, first_step);
      if (std::isnan(last)) return;
      text += (text.empty() ? "Over all layers, " : ", and ") + (before + in_words(last)) + behind;
      if (!std::isnan(first)) text += " (" + in_words(first) + " at step " + grouped(first_step) + ")";
    };
    add(Metric::max_vio, "MaxVio is ", "", [](float value) { return decimal(value, 3); });
    add(Metric::dead_fraction, "", " of the experts get no token", [](float value) { return percent(value); });
    return text.empty() ? text : text + ".";
  }

  // Returns "Most uneven in steps 951 to 1,000: layer 1, where expert 3 gets 1.56 times its fair share.", and without
  // what follows the layer. Other panels may show other steps, in which another layer is the most uneven one.
  std::pair<std::string, std::string> most_uneven() const {
    if (facts_.layer < 0) return {};
    const float max_vio = routers_.max_vio(facts_.layer);
    const std::string when = load_ ? in_window() : " at step " + grouped(routers_.last_step);
    if (max_vio <= 0) return {"All experts get their fair share" + when + ".", ""};
    const std::string text = fmt::format("Most uneven{}: layer {}", when, facts_.layer);
    const std::string figures = load_ ? ", where " + fullest() : ", with a MaxVio of " + decimal(max_vio);
    return {text + figures + ".", text + "."};
  }

  // Returns a text on a finding that is neither about routers nor about the training as a whole.
  std::string elsewhere() const {
    for (const Finding& finding : routers_.findings) {
      const FindingKindInfo& kind = finding_kind_info(finding.kind);
      if (finding.ongoing && finding.severity != Severity::note && !kind.layer_phrase &&
          kind.subject != FindingSubject::training)
        return " Other finding: " + finding.title + ".";
    }
    return {};
  }
  std::string ended_findings() const {
    const std::int64_t n =
        std::ranges::count_if(routers_.findings, [](const Finding& finding) { return !finding.ongoing; });
    return n > 0 ? " " + counted(n, "finding is over.", "findings are over.") : std::string();
  }
  // Returns " since step 480"; for what all totals of a log show, " in one total of 100,000 tokens".
  std::string since_text(std::int64_t step) const {
    if (!evidence_.are_totals || step > evidence_.span.first) return " since step " + grouped(step);
    const double tokens = evidence_.expected * history_.info().n_experts / std::max(1, history_.info().top_k);
    return " in " + totals_text(evidence_.span.loads, tokens);
  }
  // Returns "400 steps", or "10 loads" if not every step has a load.
  std::string needed_text(std::int64_t steps) const {
    const std::int64_t needed = evidence_.span.needed(steps);
    return needed == steps ? counted(needed, "step", "steps") : counted(needed, "load", "loads");
  }

  // Returns what a judgement lacks.
  std::string lacking_text() const {
    const LoadSpan& span = evidence_.span;
    if (!routers_.has_settled()) {
      const std::string interval = span.loads > 1 && span.interval() > 1 ? ", " + interval_text(span) : std::string();
      return grouped(span.loads) + " of about " + needed_text(kSettlingSteps) + interval;
    }
    return "An expert should have had " + decimal(evidence_.expected) + " tokens in " + loads_text(span) +
           "; at least " + decimal(kMinToJudge) + " are needed";
  }

  // Returns what totals cannot show.
  std::string limits() const { return evidence_.are_totals ? limits_text(evidence_.span.loads) : std::string(); }

  // Returns a text on the layer with most experts that have no token in the newest loads, if chance does not explain
  // it.
  std::string without_tokens_text() const {
    const auto silent_experts = [](const LayerLoad& load) {
      return load.living == 1 && load.evidence.expected >= kExpected ? std::ranges::count(load.shares, 0.0f) : 0;
    };
    const LayerLoad& worst = *std::ranges::max_element(routers_.loads, {}, silent_experts);
    const std::ptrdiff_t none = silent_experts(worst);
    if (none == 0) return {};
    return fmt::format(" In layer {}, {} of {} {} no token.", worst.layer, none,
                       counted(std::ssize(worst.shares), "expert", "experts"), none == 1 ? "gets" : "get");
  }

  const ScannedRouters& routers_;
  const HealthFacts& facts_;
  const History& history_;
  const LoadEvidence& evidence_;
  const LayerLoad* load_;  // of the worst layer; nullptr: none
};

bool has_ongoing(FindingKind kind, std::span<const Finding> findings) {
  return std::ranges::any_of(findings,
                             [kind](const Finding& finding) { return finding.ongoing && finding.kind == kind; });
}

// Returns what to mend before a setting of the balance can help; empty if no finding says so.
std::string first_to_mend(const ScannedRouters& routers) {
  for (const FindingKindInfo& info : finding_kinds())
    if (info.first_to_mend && has_ongoing(info.kind, routers.findings)) return info.first_to_mend;
  return {};
}

std::string help_with(const Finding& lead, const ScannedRouters& routers, const Interventions& settings) {
  const std::string moves = joined(lead.settings, ", ");
  const bool moves_bias = std::ranges::find(lead.knobs, Setting(&RouterConfig::bias_update_rate)) != lead.knobs.end() ||
                          std::ranges::find(lead.knobs, Setting(&RouterConfig::balance_rule)) != lead.knobs.end();
  if (moves_bias || finding_kind_info(lead.kind).subject == FindingSubject::load)
    if (const std::string first = first_to_mend(routers); !first.empty()) return first;
  if (!moves_bias) return moves.empty() ? std::string() : "Settings that affect it: " + moves + ".";
  const RouterBalance balance = settings.balance(routers.history.steps().last);
  const std::string rate = settings.name_of(&RouterConfig::bias_update_rate);
  const std::string coefficient = settings.name_of(&RouterConfig::aux_coeff);
  const std::string rate_on = settings.switched_on(&RouterConfig::bias_update_rate);
  const std::string coefficient_on = settings.switched_on(&RouterConfig::aux_coeff);
  if (balance.is_nothing && !rate.empty()) return "Try " + rate_on + (rate_on == rate ? "." : " (DeepSeek-V3: 0.001).");
  if (balance.is_nothing) return coefficient.empty() ? std::string() : "Try " + coefficient_on + ".";
  if (balance_text(balance).empty()) {
    std::vector<std::string> names = {rate, coefficient};
    std::erase(names, std::string());
    return "The balancing settings are not known." +
           (names.empty() ? std::string() : " Try a higher " + joined(names, " or ") + ".");
  }
  if (balance.is_by_quantiles)
    return "Try more tokens a step, since the quantiles are computed from one step" +
           (coefficient.empty() ? "." : ", or " + coefficient_on + ".");
  if (has_ongoing(FindingKind::oscillating_bias, routers.findings) && !rate.empty()) return "Try a lower " + rate + ".";
  // What balances now comes first. What is off or not known would have to be above 0.
  const bool has_bias = balance.bias_rate.value_or(0) > 0;
  const bool has_auxiliary = !balance.has_no_auxiliary && balance.aux_coeff.value_or(0) > 0;
  std::vector<std::string> texts;
  if (!rate.empty()) texts.push_back(has_bias ? "a higher " + rate : rate_on);
  if (!coefficient.empty()) texts.push_back(has_auxiliary ? "a higher " + coefficient : coefficient_on);
  if (has_auxiliary && !has_bias) std::ranges::reverse(texts);
  return texts.empty() ? std::string() : "Try " + joined(texts, ", or ") + ".";
}

std::vector<Remedy> remedies_of(const Finding& lead, const ScannedRouters& routers, const Interventions& settings) {
  const History& history = routers.history;
  const auto known = history.settings_at(routers.last_step);
  std::vector<Remedy> found;
  for (const KnownRemedy& remedy : known_remedies()) {
    const std::string name = settings.name_of(remedy.setting), value = known->text(remedy.setting).value_or("");
    if (name.empty() || (!value.empty() && value == remedy.needless_value)) continue;
    found.push_back({name, (value.empty() ? "" : "now " + value + "; ") + remedy.effect + " (" + remedy.source + ")"});
  }
  const std::int64_t first_step = first_step_of(lead.kind, routers.findings);  // of all layers that need it
  const auto saved = checkpoint_before(history, first_step);
  found.push_back(
      {"checkpoint", "restart from " +
                         (saved ? "that of step " + grouped(saved->step) : "one before step " + grouped(first_step)) +
                         " with such a setting: experts with almost no tokens have learned little since"});
  return found;
}

const char* router_words(HealthVerdict verdict) {
  static constexpr const char* kWords[] = {
      "", "", "Router: too early to tell.", "Router healthy.", "Router needs attention.", "Router unhealthy.", ""};
  return kWords[static_cast<int>(verdict)];
}

}  // namespace

void write_texts(const ScannedRouters& routers, const HealthFacts& facts, Health& health) {
  std::vector<std::string> forms = HealthText(routers, facts).forms();
  health.sentence = forms.front();
  health.shorter.assign(forms.begin() + 1, forms.end());
  if (facts.reason == HealthReason::no_step) return;
  const Interventions settings(routers.history);
  health.balance = balance_text(settings.balance(routers.history.steps().last));
  if (facts.reason != HealthReason::finding) return;
  health.help = help_with(*facts.finding, routers, settings);
  if (finding_kind_info(facts.finding->kind).subject == FindingSubject::load && first_to_mend(routers).empty())
    health.remedies = remedies_of(*facts.finding, routers, settings);
}

void write_assumption(const std::string& assumption, Health& health) {
  constexpr std::string_view kVerdict = "loads assumed ";  // which the name of the verdict says
  const std::string from = assumption.starts_with(kVerdict) ? assumption.substr(kVerdict.size()) : assumption;
  health.sentence = from + ". The verdict would be \"" + health_verdict_name(health.verdict) + "\": " + health.sentence;
  health.shorter = {from + "."};
  health.help.clear();
  health.remedies.clear();
}

void write_training(const Finding& worst, Health& health) {
  health.training = worst.brief + ".";
  const std::string router = router_words(health.router);
  const std::string head = router.empty() ? health.training : router + " " + health.training;
  std::vector<std::string> shorter = {head, health.training};
  if (health.router == HealthVerdict::healthy) {
    health.sentence = head;  // nothing is to be said of a healthy router
  } else {
    health.sentence = head + " " + health.sentence;
    shorter.insert(shorter.begin(), head + " " + (health.shorter.empty() ? "" : health.shorter.back()));
  }
  health.shorter = shorter;
  if (!worst.settings.empty()) health.help = "Settings that affect it: " + joined(worst.settings, ", ") + ".";
}

void keep_shorter(Health& health) {
  std::size_t before = health.sentence.size();
  std::erase_if(health.shorter, [&before](const std::string& form) {
    const bool is_shorter = form.size() < before;
    before = std::min(before, form.size());
    return !is_shorter;
  });
}

std::string advice_text(const Health& health) {
  std::string text = health.balance.empty() ? std::string() : health.balance.front() + ".";
  if (!health.help.empty()) text += (text.empty() ? "" : " ") + health.help;
  return text;
}

std::string health_text(const Health& health) {
  const std::string advice = advice_text(health);
  return std::string(health_verdict_name(health.verdict)) + ": " + health.sentence + (advice.empty() ? "" : " ") +
         advice;
}

}  // namespace moescope
