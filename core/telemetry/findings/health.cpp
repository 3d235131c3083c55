#include "core/telemetry/findings/health.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "core/telemetry/findings/expert_watch.h"
#include "core/telemetry/findings/interventions.h"
#include "core/telemetry/findings/recent_load.h"
#include "core/telemetry/findings/step_axis.h"
#include "core/telemetry/frame/words.h"
#include "core/telemetry/history/worst_layer.h"

namespace moescope {

namespace {

struct RouterFault {
  FindingKind kind;
  const char *of_one, *of_many;  // "Layer 3 ...", "5 of 58 MoE layers ..."
};
constexpr std::array<RouterFault, 11> kRouterFaults = {{
    {FindingKind::collapsed, "has collapsed", "have collapsed"},
    {FindingKind::collapsing, "is collapsing", "are collapsing"},
    {FindingKind::dead, "has dead experts", "have dead experts"},
    {FindingKind::no_recovery, "does not recover from a jump of the load", "do not recover from a jump of the load"},
    {FindingKind::starved, "has starved experts", "have starved experts"},
    {FindingKind::hot, "has experts that are far too full", "have experts that are far too full"},
    {FindingKind::uneven, "stays uneven", "stay uneven"},
    {FindingKind::oscillating_bias, "oscillates with its bias", "oscillate with their bias"},
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

// Mean u_e of the newest steps [E]; of the newest load where these have none; empty: there is none.
std::vector<float> recent_utilisation(const History& history, int layer) {
  std::vector<float> mean = history.utilisation(layer, newest_steps(history, kMeanSteps), 1, Summary::mean);
  if (!mean.empty() && !std::isnan(mean.front())) return mean;
  const auto frame = history.frame_at(INT64_MAX);
  const RouterFrame* router = find_router(frame.get(), layer);
  if (!router) return {};
  const auto& counts = router->tokens_per_expert;
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (sum == 0) return {};
  mean.clear();
  for (const auto count : counts) mean.push_back(static_cast<float>(count * static_cast<double>(counts.size()) / sum));
  return mean;
}

// How many of these descending utilisations make up a share of all assignments, and which share that is.
std::pair<std::size_t, double> that_take(double share, std::span<const float> load) {
  double sum = 0;
  std::size_t n = 0;
  while (n < load.size() && sum < share * static_cast<double>(load.size())) sum += static_cast<double>(load[n++]);
  return {n, sum / static_cast<double>(load.size())};
}

class Judge {
 public:
  explicit Judge(const FindingsScan& scan)
      : history_(*scan.history()), settings_(history_), findings_(scan.findings()), not_yet_(scan.not_yet()) {}
  Health health();

 private:
  float max_vio(int layer) const;
  std::string max_vio_text(int layer) const;  // "MaxVio 8.9 (window)"; empty: it has none
  const Finding* lead() const;
  void describe(const Finding& lead, Health& health) const;
  std::string who(const Finding& lead, Health& health) const;
  std::string fullest(int layer, Health& health) const;
  std::string beside(const Finding& lead) const;
  std::string worst_now(Health& health) const;
  const Finding* begun() const;
  void describe_begun(const Finding& begun, Health& health) const;
  std::string help(const Finding& lead) const;
  std::string elsewhere() const;
  std::string layers_text(std::size_t n) const;

  const History& history_;
  Interventions settings_;
  std::vector<Finding> findings_, not_yet_;
};

float Judge::max_vio(int layer) const {
  const float of_window = history_.value_at(Metric::max_vio_window, layer, INT64_MAX);
  return std::isnan(of_window) ? history_.value_at(Metric::max_vio, layer, INT64_MAX) : of_window;
}

std::string Judge::max_vio_text(int layer) const {
  const float value = max_vio(layer);
  if (std::isnan(value)) return {};
  const bool of_window = !std::isnan(history_.value_at(Metric::max_vio_window, layer, INT64_MAX));
  return "MaxVio " + decimal(static_cast<double>(value)) + (of_window ? " (window)" : " (batch)");
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
std::string Judge::fullest(int layer, Health& health) const {
  std::vector<float> load = recent_utilisation(history_, layer);
  if (load.empty()) return {};
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

std::string Judge::who(const Finding& lead, Health& health) const {
  if (!lacks_tokens(lead.kind)) return fullest(lead.layers.front(), health) + beside(lead);
  health.experts = lead.experts;
  const bool one = lead.experts.size() == 1, dead = lead.kind == FindingKind::dead;
  return (one ? "expert " : "experts ") + listed(lead.experts) +
         (dead  ? std::string(one ? " gets" : " get") + " no token"
          : one ? " gets hardly any"
                : " get hardly any");
}

// Experts of the same layer that are left without tokens.
std::string Judge::beside(const Finding& lead) const {
  std::string text;
  for (const Finding& finding : findings_) {
    if (!finding.ongoing || !lacks_tokens(finding.kind) || finding.layers != lead.layers) continue;
    text += ", " + std::to_string(finding.experts.size()) +
            (finding.kind == FindingKind::dead ? " get none" : " hardly any");
  }
  return text;
}

void Judge::describe(const Finding& lead, Health& health) const {
  health.since = lead.steps.first;
  health.finding = finding_id(lead);
  const std::string since = " since step " + grouped(lead.steps.first);
  const RouterFault* fault = fault_of(lead.kind);
  if (!fault || lead.layers.empty()) {
    health.layer = least_even_layer(history_, INT64_MAX).layer;
    health.sentence = lead.title + "," + since + ".";
    return;
  }
  std::vector<int> layers;
  for (const Finding& finding : findings_)
    if (finding.kind == lead.kind && finding.ongoing)
      layers.insert(layers.end(), finding.layers.begin(), finding.layers.end());
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  health.layer = lead.layers.front();
  const std::string worst = std::to_string(health.layer);
  health.sentence = layers.size() == 1 ? "Layer " + worst + " " + fault->of_one + since
                                       : layers_text(layers.size()) + " " + fault->of_many + " (" + listed(layers) +
                                             "). The worst, layer " + worst + "," + since;
  if (const std::string vio = max_vio_text(health.layer); !vio.empty()) health.sentence += ": " + vio;
  if (const std::string experts = who(lead, health); !experts.empty()) health.sentence += "; " + experts;
  health.sentence += ".";
}

std::string Judge::worst_now(Health& health) const {
  const LayerValue worst = least_even_layer(history_, INT64_MAX);
  health.layer = worst.layer;
  if (worst.layer < 0) return {};
  std::string text = "layer " + std::to_string(worst.layer) + ", " + max_vio_text(worst.layer);
  if (const std::string experts = fullest(worst.layer, health); !experts.empty()) text += "; " + experts;
  return text + ".";
}

// The watches wait until it has lasted (expert_watch.h): until then a router may still balance itself, but what they
// will find is not healthy meanwhile. The layer with most experts without a token; without such layers the least even.
const Finding* Judge::begun() const {
  const auto is_worse = [this](const Finding& a, const Finding& b) {
    if (a.kind != b.kind) return a.kind == FindingKind::dead;
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
  health.verdict = silent || counted_steps(history_) >= kHotSteps ? HealthVerdict::attention : HealthVerdict::too_young;
  health.sentence = "layer " + std::to_string(health.layer) + " has had " +
                    (silent ? one ? "an expert without a token" : "experts without a token"
                     : one  ? "an expert that is far too full"
                            : "experts that are far too full") +
                    " since step " + grouped(health.since) + ", and no finding yet: that takes " +
                    (silent ? grouped(kDeadBatches) + " such batches. " : grouped(kHotSteps) + " such steps. ");
  if (const std::string vio = max_vio_text(health.layer); !vio.empty()) health.sentence += vio + "; ";
  const std::string experts = silent ? who(begun, health) : fullest(health.layer, health);
  health.sentence += experts + "." + elsewhere();
}

std::string Judge::help(const Finding& lead) const {
  const std::int64_t now = history_.steps().last;
  const std::string balancing = settings_.balancing(now);
  std::string moves;
  for (const std::string& knob : lead.knobs) moves += (moves.empty() ? "" : ", ") + knob.substr(knob.find('.') + 1);
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
  const std::string now = worst_now(health);
  if (history_.info().all_layers_dense()) {
    health.sentence = "all layers of this run are dense, it has no router.";
    return health;
  }
  if (health.experts.empty()) {
    health.sentence = "the load of the experts (tokens_per_expert) is not in this run.";
    if (health.layer >= 0) health.sentence += " The least even layer: " + now;
    return health;
  }
  health.help = settings_.balancing(steps.last);
  if (read < kSettlingSteps) {
    health.verdict = HealthVerdict::too_young;
    health.sentence = counted(read, "step", "steps") + " of the " + std::to_string(kSettlingSteps) +
                      " in which every router settles. The least even so far: " + now;
    return health;
  }
  if (const Finding* finding = begun()) {
    describe_begun(*finding, health);
    return health;
  }
  health.verdict = HealthVerdict::healthy;
  health.sentence =
      "no expert is dead, starved or far too full, no layer collapses. The least even: " + now + elsewhere();
  return health;
}

}  // namespace

const char* health_verdict_name(HealthVerdict verdict) {
  static constexpr const char* kNames[] = {"Cannot tell", "Too young to tell", "Healthy", "Needs attention",
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
