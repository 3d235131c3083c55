#include "core/findings/interventions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "core/frame/change_marker.h"
#include "core/io/trimmed.h"
#include "core/io/words.h"

namespace moescope {

namespace {

// A lasting finding begins with the window of 50 steps in which it first appeared, which may begin before its cause.
constexpr std::int64_t kWindow = 50;
// Keys by which a log names a way of balancing that is unknown to this program.
constexpr std::array kOtherBalancing = {"balance", "balancing", "load_balancing", "moe_router_load_balancing_type"};
constexpr std::string_view kOff[] = {"", "none", "null", "false", "0"};
constexpr std::int64_t kJustBefore = 60, kJustAfter = 3;  // steps around a jump in which its cause is searched
constexpr std::size_t kNamedChanges = 3;                  // the newest changes are named

struct Entry {
  int expert;
  std::string value;  // in a list of biases
};

// Returns the entries for this layer in a list as described in core/config/expert_list.h.
std::vector<Entry> entries_of(std::string_view list, int layer) {
  std::vector<Entry> found;
  while (!list.empty()) {
    std::string_view entry = take_until(list, ',');
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    const auto colon = entry.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view of = entry.substr(0, colon);
    int expert = -1;
    const char* end = entry.data() + entry.size();
    const auto [rest, error] = std::from_chars(entry.data() + colon + 1, end, expert);
    if (error != std::errc() || expert < 0 || (of != "*" && of != std::to_string(layer))) continue;
    found.push_back({expert, rest != end && *rest == '=' ? std::string(rest + 1, end) : std::string()});
  }
  return found;
}

bool of_load(FindingKind kind) {
  using enum FindingKind;
  static constexpr FindingKind kOfLoad[] = {
      collapsed,  collapsing,    dead,           no_recovery,      starved,           underused,
      hot,        uneven,        uneven_ranks,   uneven_batches,   saturated,         uninformative,
      stale_bias, shared_excess, flat_auxiliary, oscillating_bias, bias_against_gate, load_shift};
  return std::ranges::find(kOfLoad, kind) != std::end(kOfLoad);
}

bool of_format(FindingKind kind) {
  return kind == FindingKind::underflow || kind == FindingKind::clipping || kind == FindingKind::low_sqnr;
}

bool may_cause(Setting setting, FindingKind kind) {
  if (of_format(kind)) return setting.is_in<PrecisionConfig>();
  if (of_load(kind))
    return setting.is_in<RouterConfig>() || setting.is_in<DataConfig>() || setting == &OptimizerConfig::lr ||
           setting == &OptimizerConfig::router_lr_factor;
  return !setting.is_in<TelemetryConfig>() && !setting.is_in<ParallelConfig>();
}

BalanceRule balance_rule(const RunSettings& now) {
  return now.value(&RouterConfig::balance_rule).value_or(BalanceRule::sign);
}

bool by_quantiles(const RunSettings& now) {
  return by_quantiles(balance_rule(now));
}

bool no_auxiliary(const RunSettings& now) {
  return now.value(&RouterConfig::aux_mode) == AuxMode::none || now.value(&RouterConfig::aux_coeff) == 0.0;
}

bool drops(const RunSettings& now) {
  return now.value(&RouterConfig::token_drop).value_or(TokenDrop::none) != TokenDrop::none;
}

// Returns "aux_coeff = 0" with the name in the log; empty if not known.
template <class T>
std::string cited(const RunSettings& now, T RouterConfig::*member) {
  const auto stated = now.stated(member);
  if (!stated) return {};
  if constexpr (std::is_same_v<T, double>) {
    if (const auto number = now.value(member)) return stated->name + " = " + decimal(*number);
  }
  return stated->name + " = " + stated->value;
}

// Returns a long and a short form; empty if not known.
std::vector<std::string> auxiliary_words(const RunSettings& now) {
  if (no_auxiliary(now)) return {"no auxiliary loss", ""};
  const auto coeff = now.value(&RouterConfig::aux_coeff);
  if (!coeff) return {};
  return {"auxiliary loss " + decimal(*coeff), "auxiliary " + decimal(*coeff)};
}

}  // namespace

Interventions::Interventions(const History& history)
    : run_(history.info().run),
      n_experts_(history.info().n_experts),
      top_k_(history.info().top_k),
      moe_layers_(history.info().moe_layers),
      settings_(history.settings()) {
  const LogSettings& log = settings_.at_start()->log();
  for (const char* name : kOtherBalancing)
    if (const auto found = log.find(name);
        found != log.end() && std::ranges::find(kOff, found->second) == std::end(kOff))
      other_balancing_ = found->first + " = " + found->second;
  for (const Marker& marker : history.markers()) {
    if (marker.run != run_) continue;
    if (marker.kind != kChangeKind) {
      const bool is_data = is_data_marker(marker.kind);
      if (!is_data && !marker.text.starts_with("checkpoint")) notes_.push_back(marker);
    } else if (const ConfigField* field = find_field(marker.key)) {
      changes_.push_back({*field, marker});
    }
  }
  std::ranges::stable_sort(changes_, {}, [](const Change& change) { return change.marker.step; });
}

std::optional<bool> Interventions::softmax(std::int64_t step) const {
  const auto score_func = settings_.at(step)->value(&RouterConfig::score_func);
  // sqrtsoftplus has no upper end at which it saturates.
  if (!score_func || *score_func == ScoreFunc::sqrtsoftplus) return std::nullopt;
  return *score_func == ScoreFunc::softmax;
}

bool Interventions::quantiles_balance(std::int64_t step) const {
  return by_quantiles(*settings_.at(step));
}

bool Interventions::sign_rule(std::int64_t step) const {
  return balance_rule(*settings_.at(step)) == BalanceRule::sign && other_balancing_.empty();
}

std::optional<double> Interventions::bias_rate(std::int64_t step) const {
  const auto now = settings_.at(step);
  const auto rate = now->value(&RouterConfig::bias_update_rate);
  if (!rate || !sign_rule(step)) return std::nullopt;
  return now->holds(&RouterConfig::frozen) ? 0 : *rate;
}

bool Interventions::holds_bias(int layer, std::int64_t step) const {
  const auto now = settings_.at(step);
  if (!now->config()) return false;
  const RouterConfig& router = now->config()->router;
  const auto place = std::ranges::find(moe_layers_, layer) - moe_layers_.begin();
  return router.frozen || router.force_balance || !router.pinned_bias.empty() || place < router.n_hash_layers;
}

int Interventions::top_k(std::int64_t step) const {
  return settings_.at(step)->value(&RouterConfig::top_k).value_or(top_k_);
}

std::optional<double> Interventions::aux_coeff(std::int64_t step) const {
  const auto now = settings_.at(step);
  if (no_auxiliary(*now) || drops(*now)) return std::nullopt;  // the loss does not count dropped copies
  return now->value(&RouterConfig::aux_coeff);
}

bool Interventions::nothing_balances(std::int64_t step) const {
  const auto now = settings_.at(step);
  return now->value(&RouterConfig::bias_update_rate) == 0.0 && !by_quantiles(*now) && other_balancing_.empty() &&
         no_auxiliary(*now) && !now->holds(&RouterConfig::force_balance);
}

std::string Interventions::balancing(std::int64_t step) const {
  const auto now = settings_.at(step);
  const std::string rate =
      by_quantiles(*now) ? cited(*now, &RouterConfig::balance_rule) : cited(*now, &RouterConfig::bias_update_rate);
  const bool no_aux = now->value(&RouterConfig::aux_mode) == AuxMode::none;
  const std::string aux = no_aux ? cited(*now, &RouterConfig::aux_mode) : cited(*now, &RouterConfig::aux_coeff);
  std::string stated;
  for (const std::string& each : {rate, aux, other_balancing_})
    if (!each.empty()) stated += (stated.empty() ? "" : ", ") + each;
  if (stated.empty()) return {};
  if (now->holds(&RouterConfig::force_balance)) return "Balance is forced: force_balance = true.";
  const std::string dropping =
      drops(*now) ? " Copies beyond the capacity are dropped: " + cited(*now, &RouterConfig::token_drop) + ", " +
                        cited(*now, &RouterConfig::capacity_factor) + "."
                  : "";
  return (nothing_balances(step) ? "Nothing balances this router: " : "Balancing: ") + stated + "." + dropping;
}

// Returns a long and a short form; empty if not known.
std::vector<std::string> Interventions::bias_words(const RunSettings& now) const {
  if (by_quantiles(now)) return {"bias by quantiles", "quantiles"};
  if (!other_balancing_.empty()) return {other_balancing_, other_balancing_};
  const auto rate = now.value(&RouterConfig::bias_update_rate);
  if (!rate) return {};
  return {"bias update rate " + decimal(*rate), "bias " + decimal(*rate)};
}

std::vector<std::string> Interventions::balance(std::int64_t step) const {
  const auto now = settings_.at(step);
  if (now->holds(&RouterConfig::force_balance)) return {"Balance: forced, whatever the scores", "Balance: forced"};
  if (nothing_balances(step)) return {"Nothing balances: bias update rate 0, no auxiliary loss", "Nothing balances"};
  std::array<std::string, 2> forms;
  for (const std::vector<std::string>& words : {bias_words(*now), auxiliary_words(*now)})
    for (std::size_t form = 0; form < words.size(); ++form)
      if (!words[form].empty()) forms[form] += (forms[form].empty() ? "Balance: " : ", ") + words[form];
  const auto factor = now->value(&RouterConfig::capacity_factor);
  std::vector<std::string> texts;
  if (!forms[0].empty() && drops(*now) && factor)
    texts.push_back(forms[0] + ", dropping beyond capacity " + decimal(*factor));
  for (const std::string& form : forms)
    if (!form.empty()) texts.push_back(form);
  return texts;
}

AuxiliaryFactors Interventions::auxiliary_factors(std::int64_t step) const {
  const auto now = settings_.at(step);
  if (now->config()) return {1, 1};
  // Megatron-LM adds the loss of each layer and logs their mean; transformers has one loss of all layers.
  const auto factor = [&](auto member) -> std::optional<double> {
    const auto coeff = now->value(member);
    if (!coeff) return std::nullopt;
    const bool of_megatron = now->stated(member)->name.starts_with("moe_");
    return of_megatron ? *coeff * static_cast<double>(moe_layers_.size()) : *coeff;
  };
  return {factor(&RouterConfig::aux_coeff), factor(&RouterConfig::z_coeff)};
}

bool Interventions::may_drop(std::int64_t step) const {
  const auto now = settings_.at(step);
  return !now->config() || drops(*now);
}

std::optional<double> Interventions::even_aux(std::int64_t step) const {
  const auto now = settings_.at(step);
  if (!now->config()) return std::nullopt;  // other programs scale the loss differently
  return now->config()->router.aux_coeff * static_cast<double>(moe_layers_.size());
}

std::vector<std::uint8_t> Interventions::killed(int layer, std::int64_t step) const {
  const auto now = settings_.at(step);
  std::vector<std::uint8_t> mask;
  if (!now->config()) return mask;
  for (const Entry& entry : entries_of(now->config()->router.killed_experts, layer)) {
    if (entry.expert >= n_experts_) continue;
    mask.resize(static_cast<std::size_t>(n_experts_));
    mask[static_cast<std::size_t>(entry.expert)] = 1;
  }
  return mask;
}

// Returns the step since which these settings have their present values.
std::int64_t Interventions::since(std::initializer_list<Setting> settings, StepRange read) const {
  std::int64_t step = read.first;
  for (const auto& [setting, marker] : changes_)
    if (marker.step <= read.last && std::ranges::find(settings, setting) != settings.end())
      step = std::max(step, marker.step);
  return step;
}

void Interventions::findings(std::vector<Finding>& out, StepRange read) const {
  if (!settings_.at_start()->config() || moe_layers_.empty() || read.empty()) return;
  add_by_hand(out, read);
  add_no_gradient(out, read);
}

void Interventions::add_by_hand(std::vector<Finding>& out, StepRange read) const {
  Finding finding;
  finding.kind = FindingKind::by_hand;
  finding.run = run_;
  finding.metric = FigureKey("utilisation");
  const auto add = [&](Setting setting, const std::string& sentence) {
    finding.knobs.push_back(setting);
    finding.observation += (finding.observation.empty() ? "" : " ") + sentence;
  };
  const auto now = settings_.at(read.last);
  const RouterConfig& router = now->config()->router;
  if (!router.killed_experts.empty())
    add(&RouterConfig::killed_experts, "Experts " + router.killed_experts + " cannot be chosen (layer:expert).");
  if (!router.pinned_bias.empty())
    add(&RouterConfig::pinned_bias, "expert_bias is held at " + router.pinned_bias + ".");
  if (router.frozen) add(&RouterConfig::frozen, "The gates and expert_bias are frozen.");
  if (router.force_balance)
    add(&RouterConfig::force_balance,
        "Experts are chosen in turn, whatever the scores are: the load is forced to be even.");
  if (router.gate_noise > 0)
    add(&RouterConfig::gate_noise,
        "Noise of " + decimal(router.gate_noise, 3) + " is added to the logits that choose experts.");
  if (finding.observation.empty()) return;
  finding.steps = {since({&RouterConfig::killed_experts, &RouterConfig::pinned_bias, &RouterConfig::frozen,
                          &RouterConfig::force_balance, &RouterConfig::gate_noise},
                         read),
                   read.last};
  finding.title = "The router is controlled by hand";
  finding.why = "This is a setting, not a fault: the load reflects the setting as well as the router.";
  out.push_back(std::move(finding));
}

// With K = 1 and s / (s + 1e-20) the only mixing weight is route_scale for any s, so its gradient is 0.
void Interventions::add_no_gradient(std::vector<Finding>& out, StepRange read) const {
  const auto now = settings_.at(read.last);
  const RouterConfig& router = now->config()->router;
  if (router.top_k != 1 || !router.route_norm) return;
  if (router.frozen || now->config()->optimizer.router_lr_factor == 0) return;  // the router is not meant to learn
  const bool aux = !no_auxiliary(*now), z = router.z_coeff > 0;
  Finding finding;
  finding.kind = FindingKind::no_gradient;
  finding.severity = Severity::warning;
  finding.run = run_;
  finding.metric = Metric::mutual_information;
  finding.knobs = {&RouterConfig::route_norm, &RouterConfig::top_k};
  finding.steps = {since({&RouterConfig::top_k, &RouterConfig::route_norm}, read), read.last};
  finding.title = aux || z ? "Only the auxiliary losses train the router" : "Nothing trains the router";
  finding.observation =
      "router.top_k is 1, and router.route_norm divides the only mixing weight by itself: the weight is route_scale, "
      "whatever the score is.";
  finding.why =
      "The cross-entropy does not depend on the scores, so that none of its gradient reaches the gates. The choice of "
      "experts is decided by the initial weights, expert_bias" +
      std::string(aux || z ? ", the auxiliary losses" : "") +
      " and weight decay. Without route_norm, or with a top_k of 2, the gates learn from the text.";
  out.push_back(std::move(finding));
}

void Interventions::add_causes(Finding& finding) const {
  if (finding.kind == FindingKind::by_hand || finding.kind == FindingKind::comparison) return;
  if (of_load(finding.kind)) {
    if (quantiles_balance(finding.steps.last))
      std::ranges::replace(finding.knobs, Setting(&RouterConfig::bias_update_rate),
                           Setting(&RouterConfig::balance_rule));
    add_expert_causes(finding);
    add_router_causes(finding);
  }
  add_change_causes(finding);
}

void Interventions::add_expert_causes(Finding& finding) const {
  if (finding.layers.empty()) return;
  const int layer = finding.layers.front();
  const std::int64_t step = finding.steps.last;
  const std::vector<std::uint8_t> mask = killed(layer, step);
  if (const auto off = std::ranges::count(mask, std::uint8_t{1}))
    finding.observation +=
        " router.killed_experts has switched off " + counted(off, "expert", "experts") + " of this layer.";
  std::set<int> held;
  const auto now = settings_.at(step);
  for (const auto member : {&RouterConfig::pinned_bias, &RouterConfig::initial_bias}) {
    const bool pinned = member == &RouterConfig::pinned_bias;
    for (const Entry& entry : entries_of(now->value(member).value_or(""), layer)) {
      if (std::ranges::find(finding.experts, entry.expert) == finding.experts.end()) continue;
      finding.observation += " The bias of expert " + std::to_string(entry.expert) +
                             (pinned ? " is held at " : " began at ") + entry.value + " (" + Setting(member).key() +
                             ").";
      if (pinned) held.insert(entry.expert);
    }
  }
  if (!finding.experts.empty() && held.size() == finding.experts.size()) finding.severity = Severity::note;
}

void Interventions::add_router_causes(Finding& finding) const {
  const auto now = settings_.at(finding.steps.last);
  if (now->holds(&RouterConfig::frozen))
    finding.observation += " The gates and expert_bias are frozen (router.frozen).";
  if (now->holds(&RouterConfig::force_balance))
    finding.observation += " Experts are chosen in turn (router.force_balance), whatever the scores are.";
  if (const double noise = now->value(&RouterConfig::gate_noise).value_or(0); noise > 0)
    finding.observation +=
        " router.gate_noise adds noise of " + decimal(noise, 3) + " to the logits that choose experts.";
  if (nothing_balances(finding.steps.last)) finding.observation += " " + balancing(finding.steps.last);
}

void Interventions::add_change_causes(Finding& finding) const {
  const bool jump = finding.kind == FindingKind::loss_spike || finding.kind == FindingKind::load_shift ||
                    finding.kind == FindingKind::no_recovery;
  const std::int64_t from = jump ? finding.steps.first - kJustBefore : INT64_MIN;
  const std::int64_t to = finding.steps.first + (jump ? kJustAfter : kWindow);
  std::vector<const Change*> named;
  for (auto change = changes_.rbegin(); change != changes_.rend() && named.size() < kNamedChanges; ++change) {
    const bool known = std::ranges::any_of(named, [&](const Change* each) { return each->setting == change->setting; });
    const std::int64_t step = change->marker.step;
    if (!known && step >= from && step <= to && may_cause(change->setting, finding.kind)) named.push_back(&*change);
  }
  std::ranges::reverse(named);
  const std::string text = joined(named, "; ", [](const Change* change) {
    return change->marker.text + " at step " + grouped(change->marker.step);
  });
  if (!text.empty())
    finding.observation +=
        (jump ? " Changed by hand just before: " : " Changed by hand before the finding: ") + text + ".";
  if (!jump && finding.kind != FindingKind::loss_not_finite) return;
  for (const Marker& note : notes_) {
    // Events at a NaN loss only repeat the finding.
    if (finding.kind == FindingKind::loss_not_finite && note.kind == "event") continue;
    if (std::abs(note.step - finding.steps.first) <= kJustAfter)
      finding.observation += " Note near this step: " + note.text + ".";
  }
}

}  // namespace moescope
