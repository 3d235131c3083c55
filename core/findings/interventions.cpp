#include "core/findings/interventions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "core/frame/change_marker.h"
#include "core/io/words.h"
#include "core/recording/run_settings.h"

namespace moescope {

namespace {

constexpr std::array kKeys = {"router.killed_experts", "router.pinned_bias",      "router.initial_bias",
                              "router.frozen",         "router.force_balance",    "router.gate_noise",
                              "router.balance_rule",   "router.bias_update_rate", "router.aux_mode",
                              "router.aux_coeff",      "router.z_coeff",          "router.top_k",
                              "router.route_norm",     "router.score_func",       "optimizer.router_lr_factor",
                              "router.token_drop",     "router.capacity_factor"};
// A lasting finding is dated by the window of 50 steps in which it first showed, which may begin before its cause.
constexpr std::int64_t kWindow = 50;
// Keys by which a log names a way of balancing that this program does not know.
constexpr std::array kOtherBalancing = {"balance", "balancing", "load_balancing", "moe_router_load_balancing_type"};
constexpr std::string_view kOff[] = {"", "none", "null", "false", "0"};
constexpr std::int64_t kJustBefore = 60, kJustAfter = 3;  // of a jump
constexpr std::size_t kNamedChanges = 3;                  // the newest

struct Entry {
  int expert;
  std::string value;  // of a list of biases
};

// The entries of a list as core/config/expert_list.h has it that are of this layer.
std::vector<Entry> entries_of(std::string_view list, int layer) {
  std::vector<Entry> found;
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
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
  switch (kind) {
    case FindingKind::collapsed:
    case FindingKind::collapsing:
    case FindingKind::dead:
    case FindingKind::no_recovery:
    case FindingKind::starved:
    case FindingKind::underused:
    case FindingKind::hot:
    case FindingKind::uneven:
    case FindingKind::uneven_ranks:
    case FindingKind::uneven_batches:
    case FindingKind::oscillating_bias:
    case FindingKind::bias_against_gate:
    case FindingKind::saturated:
    case FindingKind::uninformative:
    case FindingKind::load_shift:
      return true;
    default:
      return false;
  }
}

bool of_format(FindingKind kind) {
  return kind == FindingKind::underflow || kind == FindingKind::clipping || kind == FindingKind::low_sqnr;
}

bool may_cause(const std::string& key, FindingKind kind) {
  if (of_format(kind)) return key.starts_with("precision.");
  if (of_load(kind))
    return key.starts_with("router.") || key.starts_with("data.") || key == "optimizer.lr" ||
           key == "optimizer.router_lr_factor";
  return !key.starts_with("telemetry.") && !key.starts_with("parallel.");
}

}  // namespace

Interventions::Interventions(const History& history)
    : run_(history.info().run), n_experts_(history.info().n_experts), moe_layers_(history.info().moe_layers) {
  has_config_ = !history.info().config_toml.empty();
  if (has_config_) {
    for (const char* key : kKeys) {
      if (auto found = setting_at(history, key, INT64_MIN)) at_start_[key] = *found;
    }
  } else {
    read_log(log_settings(history));
  }
  for (const Marker& marker : history.markers()) {
    if (marker.run != run_) continue;
    if (marker.kind != kChangeKind) {
      if (marker.kind != kSettingsMarker && !marker.text.starts_with("checkpoint")) notes_.push_back(marker);
    } else if (!marker.key.empty()) {
      changes_.push_back(marker);
    }
  }
  std::ranges::stable_sort(changes_, {}, &Marker::step);
}

void Interventions::read_log(const LogSettings& settings) {
  for (const char* key : kKeys) {
    const auto found = find_setting(settings, key);
    if (found) at_start_[key] = found->value, names_[key] = found->name;
  }
  for (const char* key : kOtherBalancing) {
    const auto found = settings.find(key);
    if (found != settings.end() && std::ranges::find(kOff, found->second) == std::end(kOff))
      other_balancing_ = found->first + " = " + found->second;
  }
}

std::string Interventions::value(const std::string& key, std::int64_t step) const {
  const auto start = at_start_.find(key);
  std::string found = start == at_start_.end() ? std::string() : start->second;
  for (const Marker& change : changes_) {
    if (change.step <= step && change.key == key) found = change.value;
  }
  return found;
}

double Interventions::number(const std::string& key, std::int64_t step) const {
  const std::string text = value(key, step);
  char* end = nullptr;
  const double found = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? std::nan("") : found;
}

std::optional<bool> Interventions::softmax(std::int64_t step) const {
  const std::string name = value("router.score_func", step);
  if (name.empty()) return std::nullopt;
  if (name == "sqrtsoftplus") return std::nullopt;  // has no end at which it saturates
  return name == "softmax";
}

bool Interventions::quantiles_balance(std::int64_t step) const {
  return value("router.balance_rule", step).starts_with("quantile");
}

bool Interventions::sign_rule(std::int64_t step) const {
  return !quantiles_balance(step) && other_balancing_.empty();
}

std::optional<double> Interventions::bias_rate(std::int64_t step) const {
  const double rate = number("router.bias_update_rate", step);
  if (std::isnan(rate) || !sign_rule(step)) return std::nullopt;
  return holds("router.frozen", step) ? 0 : rate;
}

bool Interventions::nothing_balances(std::int64_t step) const {
  const double coeff = number("router.aux_coeff", step);
  const bool no_aux = value("router.aux_mode", step) == "none" || coeff == 0;
  return number("router.bias_update_rate", step) == 0 && !quantiles_balance(step) && no_aux &&
         other_balancing_.empty() && !holds("router.force_balance", step);
}

std::string Interventions::cited(const char* key, std::int64_t step) const {
  const auto name = names_.find(key);
  const std::string known = value(key, step);
  if (known.empty()) return {};
  const double as_number = number(key, step);
  return (name == names_.end() ? std::string(key).substr(std::string(key).find('.') + 1) : name->second) + " = " +
         (std::isnan(as_number) ? known : decimal(as_number));
}

std::string Interventions::balancing(std::int64_t step) const {
  const std::string rate = cited(quantiles_balance(step) ? "router.balance_rule" : "router.bias_update_rate", step);
  const bool no_aux = value("router.aux_mode", step) == "none";
  const std::string aux = cited(no_aux ? "router.aux_mode" : "router.aux_coeff", step);
  std::string stated;
  for (const std::string& each : {rate, aux, other_balancing_})
    if (!each.empty()) stated += (stated.empty() ? "" : ", ") + each;
  if (stated.empty()) return {};
  if (holds("router.force_balance", step)) return "Balance is forced: force_balance = true.";
  const std::string drop = value("router.token_drop", step);
  const std::string dropping = drop.empty() || drop == "none"
                                   ? ""
                                   : " Beyond capacity copies are dropped: " + cited("router.token_drop", step) + ", " +
                                         cited("router.capacity_factor", step) + ".";
  return (nothing_balances(step) ? "Nothing balances this router: " : "Balancing: ") + stated + "." + dropping;
}

// Long and short; empty: not known.
std::vector<std::string> Interventions::bias_words(std::int64_t step) const {
  if (quantiles_balance(step)) return {"bias by quantiles", "quantiles"};
  if (!other_balancing_.empty()) return {other_balancing_, other_balancing_};
  const double rate = number("router.bias_update_rate", step);
  if (std::isnan(rate)) return {};
  return {"bias update rate " + decimal(rate), "bias " + decimal(rate)};
}

std::vector<std::string> Interventions::auxiliary_words(std::int64_t step) const {
  const double coeff = number("router.aux_coeff", step);
  if (value("router.aux_mode", step) == "none" || coeff == 0) return {"no auxiliary loss", ""};
  if (std::isnan(coeff)) return {};
  return {"auxiliary loss " + decimal(coeff), "auxiliary " + decimal(coeff)};
}

std::vector<std::string> Interventions::balance(std::int64_t step) const {
  if (holds("router.force_balance", step)) return {"Balance: forced, whatever the scores", "Balance: forced"};
  if (nothing_balances(step)) return {"Nothing balances: bias update rate 0, no auxiliary loss", "Nothing balances"};
  std::array<std::string, 2> forms;
  for (const std::vector<std::string>& words : {bias_words(step), auxiliary_words(step)})
    for (std::size_t form = 0; form < words.size(); ++form)
      if (!words[form].empty()) forms[form] += (forms[form].empty() ? "Balance: " : ", ") + words[form];
  const std::string drop = value("router.token_drop", step);
  const std::string factor = cited("router.capacity_factor", step);
  std::vector<std::string> texts;
  if (!forms[0].empty() && !drop.empty() && drop != "none" && !factor.empty())
    texts.push_back(forms[0] + ", dropping beyond capacity " + decimal(number("router.capacity_factor", step)));
  for (const std::string& form : forms)
    if (!form.empty()) texts.push_back(form);
  return texts;
}

std::optional<double> Interventions::even_aux(std::int64_t step) const {
  const double coefficient = number("router.aux_coeff", step);
  if (std::isnan(coefficient) || !has_config_) return std::nullopt;  // other programs scale it otherwise
  return coefficient * static_cast<double>(moe_layers_.size());
}

std::vector<std::uint8_t> Interventions::killed(int layer, std::int64_t step) const {
  std::vector<std::uint8_t> mask;
  for (const Entry& entry : entries_of(value("router.killed_experts", step), layer)) {
    if (entry.expert >= n_experts_) continue;
    mask.resize(static_cast<std::size_t>(n_experts_));
    mask[static_cast<std::size_t>(entry.expert)] = 1;
  }
  return mask;
}

// The step from which on these keys are as they are.
std::int64_t Interventions::since(std::initializer_list<const char*> keys, StepRange read) const {
  std::int64_t step = read.first;
  for (const Marker& change : changes_) {
    if (change.step <= read.last && std::ranges::find(keys, change.key) != keys.end())
      step = std::max(step, change.step);
  }
  return step;
}

void Interventions::findings(std::vector<Finding>& out, StepRange read) const {
  if (!has_config_ || moe_layers_.empty() || read.empty()) return;
  add_by_hand(out, read);
  add_no_gradient(out, read);
}

void Interventions::add_by_hand(std::vector<Finding>& out, StepRange read) const {
  Finding finding;
  finding.kind = FindingKind::by_hand;
  finding.run = run_;
  finding.metric = FigureKey("utilisation");
  const auto add = [&](const char* key, const std::string& sentence) {
    finding.knobs.push_back(key);
    finding.saw += (finding.saw.empty() ? "" : " ") + sentence;
  };
  const std::string killed = value("router.killed_experts", read.last), pinned = value("router.pinned_bias", read.last);
  if (!killed.empty()) add("router.killed_experts", "Experts " + killed + " cannot be chosen (layer:expert).");
  if (!pinned.empty()) add("router.pinned_bias", "expert_bias is held at " + pinned + ".");
  if (holds("router.frozen", read.last)) add("router.frozen", "The gates and expert_bias are frozen.");
  if (holds("router.force_balance", read.last))
    add("router.force_balance", "Experts are chosen in turn, whatever the scores are: the load is forced to be even.");
  if (const double noise = number("router.gate_noise", read.last); noise > 0)
    add("router.gate_noise", "Noise of " + decimal(noise, 3) + " is added to the logits that choose experts.");
  if (finding.saw.empty()) return;
  finding.steps = {since({"router.killed_experts", "router.pinned_bias", "router.frozen", "router.force_balance",
                          "router.gate_noise"},
                         read),
                   read.last};
  finding.title = "The router is controlled by hand";
  finding.why = "This is a setting, not a fault: the load reflects the setting as well as the router.";
  out.push_back(std::move(finding));
}

// With K = 1 and s / (s + 1e-20) the only mixing weight is route_scale, whatever s is: its gradient is 0.
void Interventions::add_no_gradient(std::vector<Finding>& out, StepRange read) const {
  const std::int64_t now = read.last;
  if (number("router.top_k", now) != 1 || !holds("router.route_norm", now)) return;
  if (holds("router.frozen", now) || number("optimizer.router_lr_factor", now) == 0) return;  // not to be taught
  const bool aux = value("router.aux_mode", now) != "none" && number("router.aux_coeff", now) > 0;
  const bool z = number("router.z_coeff", now) > 0;
  Finding finding;
  finding.kind = FindingKind::no_gradient;
  finding.severity = Severity::warning;
  finding.run = run_;
  finding.metric = Metric::mutual_information;
  finding.knobs = {"router.route_norm", "router.top_k"};
  finding.steps = {since({"router.top_k", "router.route_norm"}, read), now};
  finding.title = aux || z ? "Only the auxiliary losses train the router" : "Nothing trains the router";
  finding.saw =
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
  if (of_load(finding.kind) && !at_start_.empty()) {
    if (quantiles_balance(finding.steps.last))
      std::ranges::replace(finding.knobs, "router.bias_update_rate", "router.balance_rule");
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
    finding.saw += " router.killed_experts has switched off " + counted(off, "expert", "experts") + " of this layer.";
  std::set<int> held;
  for (const char* key : {"router.pinned_bias", "router.initial_bias"}) {
    const bool pinned = std::string_view(key) == "router.pinned_bias";
    for (const Entry& entry : entries_of(value(key, step), layer)) {
      if (std::ranges::find(finding.experts, entry.expert) == finding.experts.end()) continue;
      finding.saw += " The bias of expert " + std::to_string(entry.expert) + (pinned ? " is held at " : " began at ") +
                     entry.value + " (" + key + ").";
      if (pinned) held.insert(entry.expert);
    }
  }
  if (!finding.experts.empty() && held.size() == finding.experts.size()) finding.severity = Severity::note;
}

void Interventions::add_router_causes(Finding& finding) const {
  const std::int64_t step = finding.steps.last;
  if (holds("router.frozen", step)) finding.saw += " The gates and expert_bias are frozen (router.frozen).";
  if (holds("router.force_balance", step))
    finding.saw += " Experts are chosen in turn (router.force_balance), whatever the scores are.";
  if (const double noise = number("router.gate_noise", step); noise > 0)
    finding.saw += " router.gate_noise adds noise of " + decimal(noise, 3) + " to the logits that choose experts.";
  if (nothing_balances(step)) finding.saw += " " + balancing(step);
}

void Interventions::add_change_causes(Finding& finding) const {
  const bool jump = finding.kind == FindingKind::loss_spike || finding.kind == FindingKind::load_shift ||
                    finding.kind == FindingKind::no_recovery;
  const std::int64_t from = jump ? finding.steps.first - kJustBefore : INT64_MIN;
  const std::int64_t to = finding.steps.first + (jump ? kJustAfter : kWindow);
  std::vector<const Marker*> named;
  for (auto change = changes_.rbegin(); change != changes_.rend() && named.size() < kNamedChanges; ++change) {
    const bool known = std::ranges::any_of(named, [&](const Marker* each) { return each->key == change->key; });
    if (!known && change->step >= from && change->step <= to && may_cause(change->key, finding.kind))
      named.push_back(&*change);
  }
  std::ranges::reverse(named);
  std::string text;
  for (const Marker* change : named)
    text += (text.empty() ? "" : "; ") + change->text + " at step " + grouped(change->step);
  if (!text.empty())
    finding.saw += (jump ? " Changed by hand just before: " : " Changed by hand before it: ") + text + ".";
  if (!jump) return;
  for (const Marker& note : notes_) {
    if (std::abs(note.step - finding.steps.first) <= kJustAfter) finding.saw += " Noted there: " + note.text + ".";
  }
}

}  // namespace moescope
