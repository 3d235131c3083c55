#include "core/findings/health.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/files/text/words.h"
#include "core/findings/expert_watch.h"
#include "core/findings/imbalance_watch.h"
#include "core/findings/interventions.h"
#include "core/frame/frame.h"
#include "core/recording/history/router_window.h"
#include "core/recording/history/step_axis.h"

namespace moescope {
namespace {

// The fullest experts are named if a few take nearly all assignments, or at least half of them.
constexpr double kNearlyAll = 0.9, kHalf = 0.5;
constexpr std::size_t kNamedExperts = 8;
constexpr float kLostShare = 0.1f;  // of the experts, which had tokens at first

bool is_of_router(FindingKind kind) {
  return finding_kind_info(kind).of_one != nullptr;
}

bool is_of_training(FindingKind kind) {
  return finding_kind_info(kind).subject == FindingSubject::training;
}

bool lacks_tokens(FindingKind kind) {
  return kind == FindingKind::dead || kind == FindingKind::starved;
}

// Returns the number of experts, in order of descending load, that have at least `share` of all assignments, and their
// exact share.
std::pair<std::size_t, double> that_take(double share, std::span<const float> load) {
  double sum = 0;
  std::size_t n = 0;
  while (n < load.size() && sum < share * load.size()) sum += load[n++];
  return {n, sum / load.size()};
}

// True for findings whose sentence is about the fullest experts of the last 50 steps.
bool is_of_fullest(FindingKind kind) {
  using enum FindingKind;
  return kind == collapsed || kind == collapsing || kind == uneven;
}

// Returns the loads of the scan, over its newest window of whole blocks; if every step has a load, over the last 50
// steps.
std::vector<LayerLoad> loads_of(const FindingsScan& scan) {
  std::vector<LayerLoad> loads = scan.loads();
  for (LayerLoad& load : loads) {
    if (!load.every_step) continue;
    std::vector<float> mean = layer_window(*scan.history(), load.layer, scan.read_steps().last).utilisation;
    if (mean.size() != load.shares.size()) continue;
    for (float& share : mean) share *= load.living;
    load.shares = std::move(mean);
  }
  return loads;
}

class Judge {
 public:
  explicit Judge(const FindingsScan& scan)
      : history_(*scan.history()),
        settings_(history_),
        findings_(scan.findings()),
        not_yet_(scan.not_yet()),
        loads_(loads_of(scan)),
        last_(scan.read_steps().last) {
    for (const LayerLoad& load : loads_)
      if (load.evidence.span.loads > evidence_.span.loads) evidence_ = load.evidence;
  }

  Health health() {
    Health health;
    const StepRange steps = history_.steps();
    if (steps.empty()) {
      health.sentence = "No step has been read yet.";
      return health;
    }
    health.balance = balance_text(settings_.balance(steps.last));
    if (const Finding* worst = lead(); worst && (worst->severity == Severity::severe || has_settled())) {
      health.verdict = worst->severity == Severity::severe ? HealthVerdict::unhealthy : HealthVerdict::attention;
      describe(*worst, health);
      health.help = help(*worst);
      return health;
    }
    if (history_.info().all_layers_dense()) {
      health.sentence = "All layers of this run are dense: there is no router.";
      return health;
    }
    if (loads_.empty()) {
      health.sentence = "The run has no load of the experts (tokens_per_expert).";
      health.shorter = {"No load of the experts."};
      std::string uneven = most_uneven(health).front();
      if (health.layer < 0) uneven = over_all_layers(steps.first);
      if (!uneven.empty()) {
        health.shorter.insert(health.shorter.begin(), health.sentence);
        health.sentence += " " + uneven;
      }
      // Chance keeps the share of experts without a token as it is, and a router that settles lowers it.
      const auto without_tokens = [&](std::int64_t step) {
        return history_.value_at(Metric::dead_fraction, kWholeRun, step);
      };
      if (without_tokens(INT64_MAX) - without_tokens(steps.first) >= kLostShare)
        health.verdict = HealthVerdict::attention;
      return health;
    }
    if (!has_settled() || evidence_.expected < kMinToJudge) {
      health.verdict = HealthVerdict::too_young;
      const std::string lacks = lacking_text(), silent = without_tokens_text();
      const std::vector<std::string> uneven = most_uneven(health);
      health.sentence = lacks + ". " + uneven[0] + silent;
      health.shorter = {lacks + ". " + uneven[1], lacks + "."};
      return health;
    }
    if (const Finding* finding = begun()) {
      describe_begun(*finding, health);
      return health;
    }
    health.verdict = HealthVerdict::healthy;
    const std::vector<std::string> forms = most_uneven(health);
    const std::string& uneven = forms[0];
    const std::string elsewhere = this->elsewhere();
    const std::string nobody =
        (evidence_.expected < kExpected ? "No expert is far too full" : "No expert is dead, starved or far too full") +
        (evidence_.are_totals ? since_text(-1) : std::string()) + ".";
    health.sentence = nobody + " " + uneven + limits() + elsewhere + ended_findings();
    if (!ended_findings().empty()) health.shorter = {nobody + " " + uneven + elsewhere};
    if (!elsewhere.empty()) health.shorter.push_back(uneven + elsewhere);
    for (const std::string& text : {nobody + " " + uneven, uneven, nobody, forms[1]}) health.shorter.push_back(text);
    return health;
  }

 private:
  const LayerLoad* load_of(int layer) const {
    const auto found = std::ranges::find(loads_, layer, &LayerLoad::layer);
    return found == loads_.end() ? nullptr : &*found;
  }
  // Of the window's summed loads; without loads, the figure in the history.
  float max_vio(int layer) const {
    if (const LayerLoad* load = load_of(layer)) return *std::ranges::max_element(load->shares) - 1;
    const float of_window = history_.value_at(Metric::max_vio_window, layer, INT64_MAX);
    return std::isnan(of_window) ? history_.value_at(Metric::max_vio, layer, INT64_MAX) : of_window;
  }

  // Returns the severest ongoing finding on routers; of several, that on the least even layer.
  const Finding* lead() const {
    const Finding* found = nullptr;
    float worst = -std::numeric_limits<float>::infinity();
    for (const Finding& finding : findings_) {
      if (!finding.ongoing || finding.severity == Severity::note) continue;
      const bool of_router = is_of_router(finding.kind) || finding.kind == FindingKind::no_gradient;
      if (!of_router || (found && finding.severity < found->severity)) continue;
      const float value = finding.layers.empty() ? worst : max_vio(finding.layers.front());
      if (!found || finding.severity > found->severity || value > worst) {
        found = &finding;
        worst = value;
      }
    }
    return found;
  }

  void describe(const Finding& lead, Health& health) const {
    health.first_step = lead.steps.first;
    health.finding = finding_id(lead);
    health.layer = lead.layers.empty() ? least_even() : lead.layers.front();
    const std::string begin_text = since_text(lead.steps.first);
    const FindingKindInfo& fault = finding_kind_info(lead.kind);
    if (!fault.of_one || !*fault.of_one || lead.layers.empty()) {
      health.experts = lead.experts;
      health.sentence = lead.title + "," + begin_text + "." + limits();
      health.shorter = {lead.title + "."};
      return;
    }
    const std::vector<int> layers = layers_with(lead.kind);
    const std::string worst = "ayer " + std::to_string(health.layer);
    std::string detail = this->detail(lead, health);
    if (!detail.empty()) detail = ": " + detail;
    if (layers.size() == 1) {
      const std::string head = "L" + worst + " " + fault.of_one;
      health.sentence = head + begin_text + detail + "." + limits();
      health.shorter = {head + begin_text + ".", head + ".", "L" + worst + begin_text + "."};
      return;
    }
    const std::string head = layers_text(layers.size()) + " " + fault.of_many, which = ". Worst: l" + worst;
    health.sentence = head + " (" + listed(layers) + ")" + which + "," + begin_text + detail + "." + limits();
    health.shorter = {head + which + "," + begin_text + detail + ".", head + which + "," + begin_text + ".",
                      head + which + ".", "Worst: l" + worst + begin_text + "."};
  }

  std::vector<int> layers_with(FindingKind kind) const {
    std::set<int> layers;
    for (const Finding& finding : findings_)
      if (finding.kind == kind && finding.ongoing) layers.insert(finding.layers.begin(), finding.layers.end());
    return {layers.begin(), layers.end()};
  }
  std::string detail(const Finding& lead, Health& health) const {
    const LayerLoad* load = load_of(lead.layers.front());
    health.experts = lead.experts;
    const bool of_one = lead.kind == FindingKind::hot && lead.experts.size() == 1;
    if (load && (is_of_fullest(lead.kind) || of_one))
      return fullest(*load, health) + in_window(*load) + starved_experts_text(lead);
    return lead.brief.empty() ? std::string() : lead.brief + starved_experts_text(lead);
  }
  // Returns a text on the experts that take most of the tokens, or on the fullest one.
  std::string fullest(const LayerLoad& layer, Health& health) const {
    std::vector<float> load = layer.shares;
    std::vector<int> order(load.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater{}, [&](int e) { return load[e]; });
    std::ranges::stable_sort(load, std::greater{});
    for (const double share : {kNearlyAll, kHalf}) {
      const auto [n, share_taken] = that_take(share, load);
      if (n < 2 || n > kNamedExperts || 4 * n > order.size()) continue;  // at most a quarter of all experts
      order.resize(n);
      health.experts = order;
      return "experts " + listed(order, kNamedExperts) + " take " + formatted("%.0f %%", 100 * share_taken) +
             " of its assignments";
    }
    health.experts = {order.front()};
    return "expert " + std::to_string(order.front()) + " gets " + decimal(load.front()) + " times its fair share";
  }

  // Returns the steps whose loads are summed: " in steps 951 to 1,000"; empty for one total of a whole run.
  std::string in_window(const LayerLoad& load) const {
    if (evidence_.are_totals) return {};
    if (!load.every_step) return " in the newest loads up to step " + grouped(last_);
    const StepRange steps = history_.last_steps(kWindowSteps, last_);
    return " in " + steps_in_words(steps.first, steps.last);
  }

  // Returns a text on the experts of the layer that get no tokens or almost none.
  std::string starved_experts_text(const Finding& lead) const {
    if (lacks_tokens(lead.kind)) return {};
    const LayerLoad* load = load_of(lead.layers.front());
    const std::ptrdiff_t none = load ? std::ranges::count(load->shares, 0.0f) : 0;
    const auto has_tokens = [load](int e) { return !load || load->shares[e] > 0; };
    std::ptrdiff_t starved = 0;
    for (const Finding& finding : findings_)
      if (finding.ongoing && finding.kind == FindingKind::starved && finding.layers == lead.layers)
        starved = std::ranges::count_if(finding.experts, has_tokens);
    const auto text_on = [&](std::ptrdiff_t n, const char* what) {
      return std::to_string(n) + " of " + std::to_string(history_.info().n_experts) + (n == 1 ? " gets " : " get ") +
             what;
    };
    std::vector<std::string> texts;
    if (none > 0) texts.push_back(text_on(none, "none"));
    if (starved > 0) texts.push_back(text_on(starved, "almost none"));
    return texts.empty() ? std::string() : "; " + joined(texts, " and ");
  }

  // Returns the least even layer by the loads that the scan has read; for a log without loads, by its MaxVio.
  int least_even() const {
    const LayerLoad* worst = nullptr;
    for (const LayerLoad& load : loads_)
      if (!worst || max_vio(load.layer) > max_vio(worst->layer)) worst = &load;
    return worst ? worst->layer : least_even_layer(history_, INT64_MAX).layer;
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
  std::vector<std::string> most_uneven(Health& health) const {
    health.layer = least_even();
    if (health.layer < 0) return {"", ""};
    const LayerLoad* load = load_of(health.layer);
    const std::string when = load ? in_window(*load) : " at step " + grouped(last_);
    if (max_vio(health.layer) <= 0) return {"All experts get their fair share" + when + ".", ""};
    const std::string text = "Most uneven" + when + ": layer " + std::to_string(health.layer);
    const std::string figures =
        load ? ", where " + fullest(*load, health) : ", with a MaxVio of " + decimal(max_vio(health.layer));
    return {text + figures + ".", text + "."};
  }

  // Returns the worst condition that is not a finding yet: that of the layer with most experts without a token; without
  // such layers, that of the least even layer. The watches wait until a condition has lasted (expert_watch.h,
  // imbalance_watch.h), because a router may still balance itself, but in the meantime it is not healthy either.
  const Finding* begun() const {
    const auto is_worse = [this](const Finding& a, const Finding& b) {
      if (a.kind != b.kind) return a.kind < b.kind;  // order: dead, hot, uneven
      if (a.kind == FindingKind::dead) return a.experts.size() > b.experts.size();
      return max_vio(a.layers.front()) > max_vio(b.layers.front());
    };
    const Finding* worst = nullptr;
    for (const Finding& finding : not_yet_)
      if (!worst || is_worse(finding, *worst)) worst = &finding;
    return worst;
  }

  void describe_begun(const Finding& begun, Health& health) const {
    const bool silent = begun.kind == FindingKind::dead, one = begun.experts.size() == 1;
    const bool hot = begun.kind == FindingKind::hot, starved = begun.kind == FindingKind::starved;
    health.layer = begun.layers.front();
    health.first_step = begun.steps.first;
    const LayerLoad* load = load_of(health.layer);
    const bool settles = load && load->settles && !silent && !starved;
    // After 400 steps an expert that is far too full is a finding; an uneven load may still become even.
    const bool is_late = silent || (hot && evidence_.lasts(kHotSteps) && !settles);
    health.verdict = is_late ? HealthVerdict::attention : HealthVerdict::too_young;
    const std::string begin_text = since_text(health.first_step);
    const std::string layer = "Layer " + std::to_string(health.layer);
    const auto finding_after = [this](std::int64_t steps) {
      return " It becomes a finding after " + needed_text(steps) + ".";
    };
    std::string head, rule, figures = load ? fullest(*load, health) + in_window(*load) : std::string();
    if (settles) {
      head = layer + " has been uneven" + begin_text + ", but less than before";
    } else if (silent) {
      health.experts = begun.experts;
      head = layer + " has had " + (one ? "an expert" : "experts") + " without a token" + begin_text;
      figures = (one ? "expert " : "experts ") + listed(begun.experts) + (one ? " gets" : " get") + " no token";
      rule = finding_after(kDeadSteps);
    } else if (starved) {
      health.experts = begun.experts;
      head = layer + " has had " + (one ? "an expert" : "experts") + " with almost no tokens" + begin_text;
      figures = (one ? "expert " : "experts ") + listed(begun.experts) + (one ? " gets" : " get") + " under " +
                percent(kStarvedShare) + " of " + (one ? "its" : "their") + " fair share";
      rule = finding_after(kStarvedSteps);
    } else if (hot) {
      head =
          layer + " has had " + (one ? "an expert that is far too full" : "experts that are far too full") + begin_text;
      rule = finding_after(kHotSteps);
    } else {
      head = layer + " has been uneven" + begin_text;
      rule = finding_after(kUnevenSteps);
    }
    if (!figures.empty()) figures = ": " + figures;
    health.sentence = head + figures + "." + rule + elsewhere();
    health.shorter = {head + figures + "." + rule, head + figures + ".", head + ".", layer + begin_text + "."};
  }

  bool has_ongoing(FindingKind kind) const {
    return std::ranges::any_of(findings_,
                               [kind](const Finding& finding) { return finding.ongoing && finding.kind == kind; });
  }
  // Returns what to mend before a setting of the balance can help; empty if no finding says so.
  std::string first_to_mend() const {
    for (const FindingKindInfo& info : finding_kinds())
      if (info.first_to_mend && has_ongoing(info.kind)) return info.first_to_mend;
    return {};
  }

  std::string help(const Finding& lead) const {
    const std::int64_t last_step = history_.steps().last;
    const std::string moves = joined(lead.settings, ", ");
    const bool of_bias = std::ranges::find(lead.knobs, Setting(&RouterConfig::bias_update_rate)) != lead.knobs.end() ||
                         std::ranges::find(lead.knobs, Setting(&RouterConfig::balance_rule)) != lead.knobs.end();
    if (of_bias || finding_kind_info(lead.kind).subject == FindingSubject::load)
      if (const std::string first = first_to_mend(); !first.empty()) return first;
    if (!of_bias) return moves.empty() ? std::string() : "Settings that affect it: " + moves + ".";
    const RouterBalance balance = settings_.balance(last_step);
    const std::string rate = settings_.name_of(&RouterConfig::bias_update_rate);
    const std::string coefficient = settings_.name_of(&RouterConfig::aux_coeff);
    if (balance.is_nothing && !rate.empty()) return "Try " + rate + " > 0 (DeepSeek-V3: 0.001).";
    if (balance.is_nothing) return coefficient.empty() ? std::string() : "Try " + coefficient + " > 0.";
    if (balance_text(balance).empty())
      return "The balancing settings are not known." + (moves.empty() ? std::string() : " Try " + moves + ".");
    if (balance.is_by_quantiles)
      return "Try more tokens a step, since the quantiles are computed from one step" +
             (coefficient.empty() ? "." : ", or " + coefficient + " > 0.");
    if (has_ongoing(FindingKind::oscillating_bias) && !rate.empty()) return "Try a lower " + rate + ".";
    // What balances now comes first. What is off, or the second if it is not known, would have to be above 0.
    struct Factor {
      std::string name;
      bool is_off;
    };
    std::vector<Factor> factors = {{rate, balance.bias_rate == 0.0},
                                   {coefficient, balance.has_no_auxiliary || balance.aux_coeff == 0.0}};
    if (balance.bias_rate.value_or(0) == 0 && !factors[1].is_off && balance.aux_coeff) std::ranges::reverse(factors);
    std::erase_if(factors, [](const Factor& factor) { return factor.name.empty(); });
    std::vector<std::string> texts;
    for (const Factor& factor : factors)
      texts.push_back(texts.empty() && !factor.is_off ? "a higher " + factor.name : factor.name + " > 0");
    return texts.empty() ? std::string() : "Try " + joined(texts, ", or ") + ".";
  }

  // Returns a text on a finding that is neither about routers nor about the training as a whole.
  std::string elsewhere() const {
    for (const Finding& finding : findings_)
      if (finding.ongoing && finding.severity != Severity::note && !is_of_router(finding.kind) &&
          !is_of_training(finding.kind))
        return " Other finding: " + finding.title + ".";
    return {};
  }
  std::string ended_findings() const {
    const std::int64_t n = std::ranges::count_if(findings_, [](const Finding& finding) { return !finding.ongoing; });
    return n > 0 ? " " + counted(n, "finding is over.", "findings are over.") : std::string();
  }
  std::string layers_text(std::size_t n) const {
    return std::to_string(n) + " of " + std::to_string(history_.info().moe_layers.size()) + " MoE layers";
  }
  // Without loads, figures of the routers are judged by their steps.
  bool has_settled() const {
    return loads_.empty() ? logged_steps(history_).lasts(kSettlingSteps) : evidence_.lasts(kSettlingSteps);
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
    if (!has_settled()) {
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
    const LayerLoad* worst = nullptr;
    std::ptrdiff_t worst_count = 0;
    for (const LayerLoad& load : loads_) {
      const std::ptrdiff_t none = std::ranges::count(load.shares, 0.0f);
      if (load.living == 1 && load.evidence.expected >= kExpected && none > worst_count) {
        worst = &load;
        worst_count = none;
      }
    }
    if (!worst) return {};
    return " In layer " + std::to_string(worst->layer) + ", " + std::to_string(worst_count) + " of " +
           counted(std::ssize(worst->shares), "expert", "experts") + (worst_count == 1 ? " gets" : " get") +
           " no token.";
  }

  const History& history_;
  Interventions settings_;
  std::vector<Finding> findings_, not_yet_;
  std::vector<LayerLoad> loads_;
  std::int64_t last_;      // newest step read
  LoadEvidence evidence_;  // of the layer with most loads
};

// Returns the severest ongoing finding on the training that has a sentence of its own, of several the first in the
// order of FindingKind; nullptr: none.
const Finding* worst_of_training(std::span<const Finding> findings) {
  const Finding* worst = nullptr;
  for (const Finding& finding : findings) {
    if (!finding.ongoing || finding.brief.empty() || !is_of_training(finding.kind)) continue;
    if (finding.severity == Severity::note) continue;
    const bool worse = !worst || finding.severity > worst->severity ||
                       (finding.severity == worst->severity && finding.kind < worst->kind);
    if (worse) worst = &finding;
  }
  return worst;
}

const char* router_words(HealthVerdict verdict) {
  static constexpr const char* kWords[] = {
      "", "", "Router: too early to tell.", "Router healthy.", "Router needs attention.", "Router unhealthy.", ""};
  return kWords[static_cast<int>(verdict)];
}

// Adds to the verdict on the routers what the findings say about the training: a severe one changes it to `lost`, a
// warning to `attention` at least. The texts then begin with the worst of them.
void add_training(std::span<const Finding> findings, Health& health) {
  health.router = health.verdict;
  const Finding* worst = worst_of_training(findings);
  if (!worst) return;
  health.training = worst->brief + ".";
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
  health.verdict =
      worst->severity == Severity::severe ? HealthVerdict::lost : std::max(health.verdict, HealthVerdict::attention);
  if (!worst->settings.empty()) health.help = "Settings that affect it: " + joined(worst->settings, ", ") + ".";
  health.first_step = worst->steps.first;
  health.finding = finding_id(*worst);
}

// Returns the text of the marker of a run whose loads are assumed; empty if they are not.
std::string assumption_of(const History& history) {
  for (const Marker& marker : history.markers())
    if (marker.kind == kAssumptionMarker) return marker.text;
  return {};
}

// Makes the verdict on assumed loads a part of the sentence.
void assume(const std::string& assumption, Health& health) {
  constexpr std::string_view kVerdict = "loads assumed ";  // which the name of the verdict says
  const std::string from = assumption.starts_with(kVerdict) ? assumption.substr(kVerdict.size()) : assumption;
  health.sentence = from + ". The verdict would be \"" + health_verdict_name(health.verdict) + "\": " + health.sentence;
  health.shorter = {from + "."};
  health.verdict = HealthVerdict::assumed;
  health.help.clear();
}

// Removes forms that are not shorter than the one before.
void keep_shorter(Health& health) {
  std::size_t before = health.sentence.size();
  std::erase_if(health.shorter, [&before](const std::string& form) {
    const bool is_shorter = form.size() < before;
    before = std::min(before, form.size());
    return !is_shorter;
  });
}

}  // namespace

const char* health_verdict_name(HealthVerdict verdict) {
  static constexpr const char* kNames[] = {"Cannot tell",     "Loads assumed", "Too early to tell", "Healthy",
                                           "Needs attention", "Unhealthy",     "Training lost"};
  return kNames[static_cast<int>(verdict)];
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

Health judge_health(const FindingsScan& scan) {
  const History& history = *scan.history();
  const bool of_texts =
      run_origin(history.info()) == RunOrigin::checkpoint && history.specialisation_frame_at(INT64_MAX);
  Health health = Judge(scan).health();
  if (of_texts && health.verdict != HealthVerdict::unhealthy) health = judge_texts(history);
  if (const std::string assumption = assumption_of(history); !assumption.empty()) assume(assumption, health);
  add_training(scan.findings(), health);
  health.last_step = scan.read_steps().last;
  keep_shorter(health);
  return health;
}

}  // namespace moescope
