#include "core/findings/interventions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "core/files/text/words.h"
#include "core/frame/frame.h"
#include "core/recording/marks.h"

namespace moescope {
namespace {

// A lasting finding begins with the window of 50 steps in which it first appeared, which may begin before its cause.
constexpr std::int64_t kWindow = 50;
// Keys by which a log names a way of balancing that is unknown to this program.
constexpr std::array kOtherBalancing = {"balance", "balancing", "load_balancing", "moe_router_load_balancing_type"};
constexpr std::string_view kAuxiliary = "aux_loss";  // Megatron-LM's "aux_loss", "seq_aux_loss", "global_aux_loss"
constexpr std::string_view kOff[] = {"", "none", "None", "null", "false", "False", "0"};
constexpr std::int64_t kStepsBefore = 60, kStepsAfter = 3;  // steps around a jump in which its cause is searched
constexpr std::size_t kNamedChanges = 3;                    // the newest changes are named

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
    const std::string_view layer_text = entry.substr(0, colon);
    int expert = -1;
    const char* end = entry.data() + entry.size();
    const auto [stop, error] = std::from_chars(entry.data() + colon + 1, end, expert);
    if (error != std::errc() || expert < 0 || (layer_text != "*" && layer_text != std::to_string(layer))) continue;
    found.push_back({expert, stop != end && *stop == '=' ? std::string(stop + 1, end) : std::string()});
  }
  return found;
}

bool is_of_router(FindingSubject subject) {
  return subject == FindingSubject::load || subject == FindingSubject::router;
}

bool may_cause(Setting setting, FindingSubject subject) {
  if (subject == FindingSubject::number_format) return setting.is_in<PrecisionConfig>();
  if (is_of_router(subject))
    return setting.is_in<RouterConfig>() || setting.is_in<DataConfig>() || setting == &OptimizerConfig::lr ||
           setting == &OptimizerConfig::router_lr_factor;
  return !setting.is_in<TelemetryConfig>() && !setting.is_in<ParallelConfig>();
}

BalanceRule balance_rule(const RunSettings& settings) {
  return settings.value(&RouterConfig::balance_rule).value_or(BalanceRule::sign);
}

bool by_quantiles(const RunSettings& settings) {
  return by_quantiles(balance_rule(settings));
}

bool no_auxiliary(const RunSettings& settings) {
  return settings.value(&RouterConfig::aux_mode) == AuxMode::none || settings.value(&RouterConfig::aux_coeff) == 0.0;
}

bool drops(const RunSettings& settings) {
  return settings.value(&RouterConfig::token_drop).value_or(TokenDrop::none) != TokenDrop::none;
}

// Appends a setting with its name and value in the run or log, if it is known: "aux_coeff = 0".
template <class T>
void cite(const RunSettings& settings, T RouterConfig::*member, std::vector<std::string>& cited) {
  const auto stated = settings.stated(member);
  if (!stated) return;
  std::string value = stated->value;
  if constexpr (std::is_same_v<T, double>)
    if (const auto number = settings.value(member)) value = decimal(*number);
  cited.push_back(stated->name + " = " + value);
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
    if (const auto found = log.find(name); found != log.end() &&
                                           std::ranges::find(kOff, found->second) == std::end(kOff) &&
                                           found->second.find(kAuxiliary) == std::string::npos)
      other_balancing_ = found->first + " = " + found->second;
  for (const Marker& marker : history.markers()) {
    if (marker.run != run_) continue;
    if (marker.kind != kChangeKind) {
      const bool is_data = is_data_marker(marker.kind);
      const bool is_of_program = marker.text.starts_with("checkpoint") || marker.text.starts_with(kEarlierSeeds);
      if (!is_data && !is_of_program) notes_.push_back(marker);
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
  const auto settings = settings_.at(step);
  const auto rate = settings->value(&RouterConfig::bias_update_rate);
  if (!rate || !sign_rule(step)) return std::nullopt;
  return settings->holds(&RouterConfig::frozen) ? 0 : *rate;
}

bool Interventions::holds_bias(int layer, std::int64_t step) const {
  const auto settings = settings_.at(step);
  if (!settings->config()) return false;
  const RouterConfig& router = settings->config()->router;
  const auto place = std::ranges::find(moe_layers_, layer) - moe_layers_.begin();
  return router.frozen || router.force_balance || !router.pinned_bias.empty() || place < router.n_hash_layers;
}

int Interventions::top_k(std::int64_t step) const {
  return settings_.at(step)->value(&RouterConfig::top_k).value_or(top_k_);
}

std::optional<double> Interventions::aux_coeff(std::int64_t step) const {
  const auto settings = settings_.at(step);
  if (no_auxiliary(*settings) || drops(*settings)) return std::nullopt;  // the loss does not count dropped copies
  return settings->value(&RouterConfig::aux_coeff);
}

bool Interventions::nothing_balances(std::int64_t step) const {
  const auto settings = settings_.at(step);
  return settings->value(&RouterConfig::bias_update_rate) == 0.0 && !by_quantiles(*settings) &&
         other_balancing_.empty() && no_auxiliary(*settings) && !settings->holds(&RouterConfig::force_balance);
}

RouterBalance Interventions::balance(std::int64_t step) const {
  const auto settings = settings_.at(step);
  RouterBalance balance;
  balance.is_forced = settings->holds(&RouterConfig::force_balance);
  balance.is_nothing = nothing_balances(step);
  balance.is_by_quantiles = by_quantiles(*settings);
  balance.has_no_auxiliary = no_auxiliary(*settings);
  balance.drops = drops(*settings);
  balance.bias_rate = settings->value(&RouterConfig::bias_update_rate);
  balance.aux_coeff = settings->value(&RouterConfig::aux_coeff);
  balance.capacity_factor = settings->value(&RouterConfig::capacity_factor);
  balance.other = other_balancing_;
  cite(*settings, &RouterConfig::bias_update_rate, balance.stated);
  if (settings->value(&RouterConfig::aux_mode) == AuxMode::none)
    cite(*settings, &RouterConfig::aux_mode, balance.stated);
  else
    cite(*settings, &RouterConfig::aux_coeff, balance.stated);
  cite(*settings, &RouterConfig::token_drop, balance.stated_drops);
  cite(*settings, &RouterConfig::capacity_factor, balance.stated_drops);
  return balance;
}

std::vector<std::string> Interventions::names_of(const std::vector<Setting>& settings) const {
  std::vector<std::string> names;
  for (const Setting setting : settings)
    if (std::string name = name_of(setting, setting.key()); !name.empty()) names.push_back(std::move(name));
  return names;
}

std::string Interventions::name_of(Setting setting) const {
  return name_of(setting, setting.name());
}

std::string Interventions::name_of(Setting setting, const std::string& own_name) const {
  const auto settings = settings_.at_start();
  if (settings->config()) return own_name;
  if (setting == &RouterConfig::aux_coeff) return settings->name_of(setting, "auxiliary loss weight");
  if (setting == &RouterConfig::bias_update_rate) return settings->name_of(setting, "bias update rate");
  if (setting == &RouterConfig::z_coeff) return settings->name_of(setting, "router z-loss weight");
  if (setting == &PrecisionConfig::router_gate) return settings->name_of(setting, "number format of the gate");
  return settings->name_of(setting, own_name);
}

std::string Interventions::switched_on(Setting setting) const {
  const std::string value = settings_.at_start()->text(setting).value_or("");
  const bool is_switch = value == "false" || value == "False";
  return is_switch ? name_of(setting) : name_of(setting) + " > 0";
}

AuxiliaryFactors Interventions::auxiliary_factors(std::int64_t step) const {
  const auto settings = settings_.at(step);
  if (settings->config()) return {1, 1};
  // Megatron-LM adds the loss of each layer and logs their mean; transformers has one loss of all layers.
  const auto factor = [&](auto member) -> std::optional<double> {
    const auto coeff = settings->value(member);
    if (!coeff) return std::nullopt;
    const bool is_megatron = settings->stated(member)->name.starts_with("moe_");
    return is_megatron ? *coeff * static_cast<double>(moe_layers_.size()) : *coeff;
  };
  return {factor(&RouterConfig::aux_coeff), factor(&RouterConfig::z_coeff)};
}

bool Interventions::may_drop(std::int64_t step) const {
  const auto settings = settings_.at(step);
  return !settings->config() || drops(*settings);
}

std::optional<double> Interventions::even_aux(std::int64_t step) const {
  const auto settings = settings_.at(step);
  if (!settings->config()) return std::nullopt;  // other programs scale the loss differently
  return settings->config()->router.aux_coeff * moe_layers_.size();
}

std::vector<std::uint8_t> Interventions::killed(int layer, std::int64_t step) const {
  const auto settings = settings_.at(step);
  std::vector<std::uint8_t> mask;
  if (!settings->config()) return mask;
  for (const Entry& entry : entries_of(settings->config()->router.killed_experts, layer)) {
    if (entry.expert >= n_experts_) continue;
    mask.resize(n_experts_);
    mask[entry.expert] = 1;
  }
  return mask;
}

// Returns the step since which these settings have their present values.
std::int64_t Interventions::first_step_with(std::initializer_list<Setting> settings, StepRange read) const {
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
  const std::initializer_list<Setting> by_hand = {&RouterConfig::killed_experts, &RouterConfig::pinned_bias,
                                                  &RouterConfig::frozen, &RouterConfig::force_balance,
                                                  &RouterConfig::gate_noise};
  const RunConfig& config = *settings_.at(read.last)->config();
  Finding finding = finding_of(FindingKind::by_hand, run_, {first_step_with(by_hand, read), read.last});
  for (const Setting setting : by_hand)
    if (setting.field().get(config) != setting.field().get(default_config())) finding.knobs.push_back(setting);
  if (finding.knobs.empty()) return;
  const bool is_forced = std::ranges::find(finding.knobs, Setting(&RouterConfig::force_balance)) != finding.knobs.end();
  finding.title = is_forced ? "Balance is forced" : "The router is controlled by hand";
  finding.observation =
      joined(finding.knobs, " ", [&](Setting setting) { return by_hand_text(setting, config.router); });
  finding.meaning = "This is a setting, not a fault: the load reflects the setting as well as the router.";
  out.push_back(std::move(finding));
}

// With K = 1 and s / (s + 1e-20) the only mixing weight is route_scale for any s, so its gradient is 0.
bool Interventions::constant_weights(std::int64_t step) const {
  const auto settings = settings_.at(step);
  return settings->config() && settings->config()->router.top_k == 1 && settings->config()->router.route_norm;
}

void Interventions::add_no_gradient(std::vector<Finding>& out, StepRange read) const {
  const auto settings = settings_.at(read.last);
  const RouterConfig& router = settings->config()->router;
  if (!constant_weights(read.last) || router.frozen || settings->config()->optimizer.router_lr_factor == 0)
    return;  // a router that is not meant to learn is no fault
  const std::int64_t since_step = first_step_with({&RouterConfig::top_k, &RouterConfig::route_norm}, read);
  Finding& finding = out.emplace_back(finding_of(FindingKind::no_gradient, run_, {since_step, read.last}));
  finding.knobs = {&RouterConfig::route_norm, &RouterConfig::top_k};
  describe_no_gradient(!no_auxiliary(*settings) || router.z_coeff > 0, finding);
}

void Interventions::add_causes(Finding& finding) const {
  if (finding.kind == FindingKind::by_hand) return;
  Causes causes;
  if (is_of_router(finding_kind_info(finding.kind).subject)) {
    if (quantiles_balance(finding.steps.last))
      std::ranges::replace(finding.knobs, Setting(&RouterConfig::bias_update_rate),
                           Setting(&RouterConfig::balance_rule));
    find_router_causes(finding, causes);
    std::set<int> pinned;
    for (const Causes::ChosenBias& bias : causes.biases)
      if (bias.is_pinned) pinned.insert(bias.expert);
    if (!finding.experts.empty() && pinned.size() == finding.experts.size()) finding.severity = Severity::note;
  }
  find_changes(finding, causes);
  finding.observation += causes_text(causes);
}

void Interventions::find_router_causes(const Finding& finding, Causes& causes) const {
  const std::int64_t step = finding.steps.last;
  const auto settings = settings_.at(step);
  if (!finding.layers.empty()) {
    const int layer = finding.layers.front();
    causes.killed = std::ranges::count(killed(layer, step), std::uint8_t{1});
    for (const auto member : {&RouterConfig::pinned_bias, &RouterConfig::initial_bias})
      for (const Entry& entry : entries_of(settings->value(member).value_or(""), layer))
        if (std::ranges::find(finding.experts, entry.expert) != finding.experts.end())
          causes.biases.push_back({entry.expert, entry.value, member == &RouterConfig::pinned_bias});
  }
  causes.is_frozen = settings->holds(&RouterConfig::frozen);
  causes.is_forced = settings->holds(&RouterConfig::force_balance);
  causes.gate_noise = settings->value(&RouterConfig::gate_noise).value_or(0);
  if (nothing_balances(step)) causes.balance = balance(step);
}

void Interventions::find_changes(const Finding& finding, Causes& causes) const {
  causes.is_jump = finding.kind == FindingKind::loss_spike || finding.kind == FindingKind::load_shift ||
                   finding.kind == FindingKind::no_recovery;
  const std::int64_t from = causes.is_jump ? finding.steps.first - kStepsBefore : INT64_MIN;
  const std::int64_t to = finding.steps.first + (causes.is_jump ? kStepsAfter : kWindow);
  const FindingSubject subject = finding_kind_info(finding.kind).subject;
  std::set<Setting> named;
  for (auto change = changes_.rbegin(); change != changes_.rend() && named.size() < kNamedChanges; ++change) {
    const std::int64_t step = change->marker.step;
    if (step >= from && step <= to && may_cause(change->setting, subject) && named.insert(change->setting).second)
      causes.changes.insert(causes.changes.begin(), change->marker);
  }
  const bool is_lost = finding.kind == FindingKind::loss_not_finite;
  if (!causes.is_jump && !is_lost) return;
  for (const Marker& note : notes_)
    // Events at a NaN loss only repeat the finding.
    if (!(is_lost && note.kind == "event") && std::abs(note.step - finding.steps.first) <= kStepsAfter)
      causes.notes.push_back(note);
}

}  // namespace moescope
