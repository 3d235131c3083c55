#include "core/telemetry/findings/health.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "core/telemetry/findings/expert_watch.h"
#include "core/telemetry/findings/imbalance_watch.h"
#include "core/telemetry/findings/interventions.h"
#include "core/telemetry/frame/words.h"
#include "core/telemetry/history/step_axis.h"
#include "core/telemetry/history/worst_layer.h"

namespace moescope {

namespace {

// "Layer 3 ...", "5 of 58 MoE layers ..."; nullptr: the finding's title says it.
struct RouterFault {
  FindingKind kind;
  const char *of_one, *of_many;
};
constexpr std::array<RouterFault, 15> kRouterFaults = {{
    {FindingKind::collapsed, "has collapsed", "have collapsed"},
    {FindingKind::collapsing, "is collapsing", "are collapsing"},
    {FindingKind::dead, "has dead experts", "have dead experts"},
    {FindingKind::no_recovery, "does not recover from a jump of the load", "do not recover from a jump of the load"},
    {FindingKind::starved, "has starved experts", "have starved experts"},
    {FindingKind::underused, "has underused experts", "have underused experts"},
    {FindingKind::hot, "has experts that are far too full", "have experts that are far too full"},
    {FindingKind::uneven, "stays uneven", "stay uneven"},
    {FindingKind::uneven_ranks, "has neighbouring experts that are too full together",
     "have neighbouring experts that are too full together"},
    {FindingKind::uneven_batches, "is uneven in every batch", "are uneven in every batch"},
    {FindingKind::swapped_layers, nullptr, nullptr},
    {FindingKind::oscillating_bias, "has a load that oscillates", "have loads that oscillate"},
    {FindingKind::saturated, "has a saturated router", "have saturated routers"},
    {FindingKind::uninformative, "gives every token the same scores", "give every token the same scores"},
    {FindingKind::bias_against_gate, "has a bias that contradicts its gate", "have a bias that contradicts their gate"},
}};
// The fullest experts are named if so few take nearly all assignments, or else half of them.
constexpr double kNearlyAll = 0.9, kHalf = 0.5;
constexpr std::size_t kNamedExperts = 8;

const RouterFault* fault_of(FindingKind kind) {
  const auto* found = std::ranges::find(kRouterFaults, kind, &RouterFault::kind);
  return found == kRouterFaults.end() ? nullptr : found;
}

bool lacks_tokens(FindingKind kind) {
  return kind == FindingKind::dead || kind == FindingKind::starved;
}

// How many of these descending utilisations make up a share of all assignments, and which share that is.
std::pair<std::size_t, double> that_take(double share, std::span<const float> load) {
  double sum = 0;
  std::size_t n = 0;
  while (n < load.size() && sum < share * static_cast<double>(load.size())) sum += static_cast<double>(load[n++]);
  return {n, sum / static_cast<double>(load.size())};
}

// Figures that are of the window's loads; others have a span of their own.
bool is_of_window(FindingKind kind) {
  using enum FindingKind;
  return kind == hot || kind == uneven || kind == underused || kind == uneven_ranks || kind == uneven_batches;
}

class Judge {
 public:
  explicit Judge(const FindingsScan& scan)
      : history_(*scan.history()),
        settings_(history_),
        findings_(scan.findings()),
        not_yet_(scan.not_yet()),
        loads_(scan.loads()) {}
  Health health();

 private:
  const LayerLoad* load_of(int layer) const;
  float max_vio(int layer) const;  // of the window's loads together; where there are none, as the history has it
  const Finding* lead() const;
  void describe(const Finding& lead, Health& health) const;
  std::string detail(const Finding& lead, Health& health) const;
  std::string fullest(const LayerLoad& load, Health& health) const;
  std::string figures(const LayerLoad& load, Health& health) const;
  std::string beside(const Finding& lead) const;
  int least_even() const;
  std::string least_even_now(const char* is, Health& health) const;
  const Finding* begun() const;
  void describe_begun(const Finding& begun, Health& health) const;
  std::string help(const Finding& lead) const;
  std::string elsewhere() const;
  std::string layers_text(std::size_t n) const;

  const History& history_;
  Interventions settings_;
  std::vector<Finding> findings_, not_yet_;
  std::vector<LayerLoad> loads_;
};

const LayerLoad* Judge::load_of(int layer) const {
  const auto found = std::ranges::find(loads_, layer, &LayerLoad::layer);
  return found == loads_.end() ? nullptr : &*found;
}

float Judge::max_vio(int layer) const {
  if (const LayerLoad* load = load_of(layer)) return *std::ranges::max_element(load->shares) - 1;
  const float of_window = history_.value_at(Metric::max_vio_window, layer, INT64_MAX);
  return std::isnan(of_window) ? history_.value_at(Metric::max_vio, layer, INT64_MAX) : of_window;
}

// Of the severest ongoing findings that on the least even layer; a loss that is lost goes first.
const Finding* Judge::lead() const {
  const Finding* found = nullptr;
  float worst = -std::numeric_limits<float>::infinity();
  for (const Finding& finding : findings_) {
    if (!finding.ongoing || finding.severity == Severity::note) continue;
    if (finding.kind == FindingKind::loss_not_finite) return &finding;
    const bool of_router = fault_of(finding.kind) || finding.kind == FindingKind::no_gradient;
    if (!of_router || (found && finding.severity < found->severity)) continue;
    const float value = finding.layers.empty() ? worst : max_vio(finding.layers.front());
    if (!found || finding.severity > found->severity || value > worst) found = &finding, worst = value;
  }
  return found;
}

std::string Judge::layers_text(std::size_t n) const {
  return std::to_string(n) + " of " + std::to_string(history_.info().moe_layers.size()) + " MoE layers";
}

// The experts that take most of the tokens, or the fullest one.
std::string Judge::fullest(const LayerLoad& of, Health& health) const {
  std::vector<float> load = of.shares;
  std::vector<int> order(load.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](int e) { return load[static_cast<std::size_t>(e)]; });
  std::ranges::stable_sort(load, std::greater{});
  for (const double share : {kNearlyAll, kHalf}) {
    const auto [n, taken] = that_take(share, load);
    if (n < 2 || n > kNamedExperts || 4 * n > order.size()) continue;  // of a quarter of all, at most
    order.resize(n);
    health.experts = order;
    return "experts " + listed(order, kNamedExperts) + " take " + formatted("%.0f %%", 100 * taken) +
           " of its assignments";
  }
  health.experts = {order.front()};
  return "expert " + std::to_string(order.front()) + " has " + decimal(static_cast<double>(load.front())) +
         " times its fair share";
}

// All of the same steps.
std::string Judge::figures(const LayerLoad& load, Health& health) const {
  return "over the newest " + load.batches + " together MaxVio is " +
         decimal(static_cast<double>(max_vio(load.layer))) + ", " + fullest(load, health);
}

std::string Judge::detail(const Finding& lead, Health& health) const {
  const LayerLoad* load = load_of(lead.layers.front());
  health.experts = lead.experts;
  if (!lead.brief.empty())
    return (is_of_window(lead.kind) && load ? "over the newest " + load->batches + " " : std::string()) + lead.brief +
           beside(lead);
  const bool collapse = lead.kind == FindingKind::collapsed || lead.kind == FindingKind::collapsing;
  return collapse && load ? figures(*load, health) + beside(lead) : std::string();
}

// Experts of the same layer that are left without tokens.
std::string Judge::beside(const Finding& lead) const {
  std::string text;
  if (lacks_tokens(lead.kind)) return text;
  for (const Finding& finding : findings_) {
    if (!finding.ongoing || !lacks_tokens(finding.kind) || finding.layers != lead.layers) continue;
    text += ", " + std::to_string(finding.experts.size()) +
            (finding.kind == FindingKind::dead ? " get none" : " get hardly any");
  }
  return text;
}

void Judge::describe(const Finding& lead, Health& health) const {
  health.since = lead.steps.first;
  health.finding = finding_id(lead);
  health.layer = lead.layers.empty() ? least_even() : lead.layers.front();
  const std::string since = ", since step " + grouped(lead.steps.first);
  const RouterFault* fault = fault_of(lead.kind);
  if (!fault || !fault->of_one || lead.layers.empty()) {
    health.experts = lead.experts;
    health.sentence = lead.title + since + ".";
    return;
  }
  std::vector<int> layers;
  for (const Finding& finding : findings_)
    if (finding.kind == lead.kind && finding.ongoing)
      layers.insert(layers.end(), finding.layers.begin(), finding.layers.end());
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  const std::string worst = std::to_string(health.layer);
  health.sentence = layers.size() == 1 ? "Layer " + worst + " " + fault->of_one + since
                                       : layers_text(layers.size()) + " " + fault->of_many + " (" + listed(layers) +
                                             "). The worst is layer " + worst + since;
  if (const std::string detail = this->detail(lead, health); !detail.empty()) health.sentence += ": " + detail;
  health.sentence += ".";
}

// By the loads that the scan has read; of a log without loads by its MaxVio.
int Judge::least_even() const {
  const LayerLoad* worst = nullptr;
  for (const LayerLoad& load : loads_)
    if (!worst || max_vio(load.layer) > max_vio(worst->layer)) worst = &load;
  return worst ? worst->layer : least_even_layer(history_, INT64_MAX).layer;
}

std::string Judge::least_even_now(const char* is, Health& health) const {
  health.layer = least_even();
  if (health.layer < 0) return {};
  const std::string text = std::string("The least even layer") + is + std::to_string(health.layer);
  if (const LayerLoad* load = load_of(health.layer)) return text + ": " + figures(*load, health) + ".";
  return text + ", with a MaxVio of " + decimal(static_cast<double>(max_vio(health.layer))) + ".";
}

// The watches wait until it has lasted (expert_watch.h, imbalance_watch.h): until then a router may still balance
// itself, but what they will find is not healthy meanwhile. The layer with most experts without a token; without such
// layers the least even.
const Finding* Judge::begun() const {
  const auto is_worse = [this](const Finding& a, const Finding& b) {
    if (a.kind != b.kind) return a.kind < b.kind;  // dead, hot, uneven
    if (a.kind == FindingKind::dead) return a.experts.size() > b.experts.size();
    return max_vio(a.layers.front()) > max_vio(b.layers.front());
  };
  const Finding* worst = nullptr;
  for (const Finding& finding : not_yet_)
    if (!worst || is_worse(finding, *worst)) worst = &finding;
  return worst;
}

void Judge::describe_begun(const Finding& begun, Health& health) const {
  const bool silent = begun.kind == FindingKind::dead, one = begun.experts.size() == 1;
  health.layer = begun.layers.front();
  health.since = begun.steps.first;
  const LayerLoad* load = load_of(health.layer);
  const bool settles = load && load->settles && !silent;
  // What lasts 400 steps is a finding for an expert that is far too full; an uneven load may still get even.
  const bool hot = begun.kind == FindingKind::hot;
  const bool is_late = silent || (hot && counted_steps(history_) >= kHotSteps && !settles);
  health.verdict = is_late ? HealthVerdict::attention : HealthVerdict::too_young;
  const std::string since = " since step " + grouped(health.since) + ", and no finding yet: ";
  const std::string layer = "layer " + std::to_string(health.layer);
  if (settles)
    health.sentence = layer + " is still settling, since step " + grouped(health.since) + ".";
  else if (silent)
    health.sentence = layer + " has had " + (one ? "an expert" : "experts") + " without a token" + since +
                      "that takes " + grouped(kDeadSteps) + " such steps.";
  else if (hot)
    health.sentence = layer + " has had " + (one ? "an expert that is far too full" : "experts that are far too full") +
                      since + "that takes " + grouped(kHotSteps) + " such steps.";
  else
    health.sentence = layer + " has been uneven" + since + "that takes " + grouped(kUnevenSteps) +
                      " such steps, fewer the fuller an expert is.";
  std::string figures = load ? this->figures(*load, health) : std::string();
  if (silent) {
    health.experts = begun.experts;
    figures = (one ? "expert " : "experts ") + listed(begun.experts) + (one ? " gets" : " get") + " no token";
  }
  if (!figures.empty()) {
    figures.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(figures.front())));
    health.sentence += " " + figures + ".";
  }
  health.sentence += elsewhere();
}

std::string Judge::help(const Finding& lead) const {
  const std::int64_t now = history_.steps().last;
  const std::string balancing = settings_.balancing(now);
  std::string moves;
  for (const std::string& knob : lead.knobs) moves += (moves.empty() ? "" : ", ") + knob;
  const bool of_bias = std::ranges::find(lead.knobs, "router.bias_update_rate") != lead.knobs.end() ||
                       std::ranges::find(lead.knobs, "router.balance_rule") != lead.knobs.end();
  if (!of_bias) return moves.empty() ? std::string() : "Settings that move it: " + moves + ".";
  if (settings_.nothing_balances(now))
    return balancing + " Would help: a bias_update_rate above 0 (0.001 in DeepSeek-V3).";
  if (balancing.empty()) return "The settings that balance it are not known. Would help: " + moves + ".";
  if (settings_.quantiles_balance(now))
    return balancing + " Would help: more tokens a step (data.batch), from which the quantiles are, or aux_coeff.";
  if (lead.kind == FindingKind::oscillating_bias) return balancing + " Would help: a lower bias_update_rate.";
  return balancing + " Would help: a higher bias_update_rate, or aux_coeff.";
}

// What is not of the router, and what is over.
std::string Judge::elsewhere() const {
  std::string text;
  std::int64_t over = 0;
  for (const Finding& finding : findings_) {
    over += !finding.ongoing;
    const bool counts = finding.ongoing && finding.severity != Severity::note && !fault_of(finding.kind);
    if (counts && text.empty()) text = " Elsewhere: " + finding.title + ".";
  }
  if (over > 0) text += " " + counted(over, "finding is over.", "findings are over.");
  return text;
}

Health Judge::health() {
  Health health;
  const StepRange steps = history_.steps();
  if (steps.empty()) {
    health.sentence = "No step has been read yet.";
    return health;
  }
  const std::int64_t read = counted_steps(history_);
  if (const Finding* worst = lead(); worst && (worst->severity == Severity::severe || read >= kSettlingSteps)) {
    health.verdict = worst->severity == Severity::severe ? HealthVerdict::unhealthy : HealthVerdict::attention;
    describe(*worst, health);
    health.help = help(*worst);
    return health;
  }
  if (history_.info().all_layers_dense()) {
    health.sentence = "all layers of this run are dense, it has no router.";
    return health;
  }
  if (loads_.empty()) {
    health.sentence = "the load of the experts (tokens_per_expert) is not in this run.";
    if (const std::string least = least_even_now(" is ", health); !least.empty()) health.sentence += " " + least;
    return health;
  }
  health.help = settings_.balancing(steps.last);
  if (read < kSettlingSteps) {
    health.verdict = HealthVerdict::too_young;
    health.sentence = std::to_string(read) + " of about " + std::to_string(kSettlingSteps) + " steps. " +
                      least_even_now(" so far is ", health);
    return health;
  }
  if (const Finding* finding = begun()) {
    describe_begun(*finding, health);
    return health;
  }
  health.verdict = HealthVerdict::healthy;
  health.sentence = "no expert is dead, starved or far too full, and no layer collapses. " +
                    least_even_now(" is ", health) + elsewhere();
  return health;
}

}  // namespace

const char* health_verdict_name(HealthVerdict verdict) {
  static constexpr const char* kNames[] = {"Cannot tell", "Too early to tell", "Healthy", "Needs attention",
                                           "Unhealthy"};
  return kNames[static_cast<int>(verdict)];
}

std::string health_text(const Health& health) {
  return std::string(health_verdict_name(health.verdict)) + ": " + health.sentence +
         (health.help.empty() ? std::string() : " " + health.help);
}

Health judge_health(const FindingsScan& scan) {
  return Judge(scan).health();
}

}  // namespace moescope
