// Interventions: settings of the user that may cause findings, such as killed experts, pinned biases, a frozen router,
// or changes during the training. A finding that follows from an intervention names it.
//
// They are known for runs with a config, that is, runs trained here. For logs of other programs only the balancing in
// their first line is known; it is cited with the log's own keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/findings/auxiliary_watch.h"
#include "core/findings/findings.h"
#include "core/recording/history/settings_track.h"

namespace moescope {

// What balances the router, as far as it is known.
struct RouterBalance {
  bool is_forced = false, is_nothing = false, is_by_quantiles = false, has_no_auxiliary = false, drops = false;
  std::optional<double> bias_rate, aux_coeff, capacity_factor;
  std::string other;                // as a log names it: "balance = quantile histogram"; empty: none
  std::vector<std::string> stated;  // settings as in the run or log: "bias_update_rate = 0", "aux_coeff = 0"
  std::vector<std::string> stated_drops;
};
// What may have caused a finding.
struct Causes {
  struct ChosenBias {
    int expert = -1;
    std::string value;
    bool is_pinned = false;  // else it began at this value
  };
  std::ptrdiff_t killed = 0;       // experts of the layer that are switched off
  std::vector<ChosenBias> biases;  // of the experts of the finding
  bool is_frozen = false, is_forced = false;
  double gate_noise = 0;
  std::optional<RouterBalance> balance;  // if nothing balances the router
  bool is_jump = false;                  // the finding began at one step
  std::vector<Marker> changes, notes;    // near its beginning
};

// Returns for example "Experts 1:3 cannot be chosen (layer:expert)."
std::string by_hand_text(Setting setting, const RouterConfig& router);
std::string causes_text(const Causes& causes);  // sentences, each after a space
// Returns what balances the router in a few words, from long to short: "Balance: bias update rate 0.001, no auxiliary
// loss", "Balance: bias 0.001"; empty: not known.
std::vector<std::string> balance_text(const RouterBalance& balance);
void describe_no_gradient(bool has_auxiliary, Finding& finding);

class Interventions {
 public:
  Interventions() = default;
  explicit Interventions(const History& history);

  // Returns true for softmax scores, false for sigmoid; nullopt: not known, or another function.
  std::optional<bool> softmax(std::int64_t step) const;
  bool quantiles_balance(std::int64_t step) const;           // a quantile rule sets the bias, not a rule with a rate
  bool sign_rule(std::int64_t step) const;                   // false if another rule is known to change the bias
  std::optional<double> bias_rate(std::int64_t step) const;  // of the sign rule; nullopt: another rule, or not known
  // True if a setting keeps the sign rule from changing the bias of this layer: a frozen router, pinned biases, forced
  // balance, or a table of experts. Always false for runs without a config.
  bool holds_bias(int layer, std::int64_t step) const;
  int top_k(std::int64_t step) const;  // 0: not known
  // Coefficient of an auxiliary loss that is on; nullopt: none is known, or copies above a capacity are dropped.
  std::optional<double> aux_coeff(std::int64_t step) const;
  bool nothing_balances(std::int64_t step) const;  // known to have no bias rule, no auxiliary loss, no forced balance
  RouterBalance balance(std::int64_t step) const;
  // Names of settings, for advice: of a log as the program that wrote it calls those that it has.
  std::vector<std::string> names_of(const std::vector<Setting>& settings) const;
  std::string name_of(Setting setting) const;      // without the section; empty if that program has none
  std::string switched_on(Setting setting) const;  // "aux_coeff > 0"; a switch alone: "--moe-router-enable-expert-bias"
  // What turns a logged auxiliary loss into the part of the loss that is trained on (auxiliary_watch.h).
  AuxiliaryFactors auxiliary_factors(std::int64_t step) const;
  bool may_drop(std::int64_t step) const;  // false if the settings say that copies beyond the capacity are kept
  std::optional<double> even_aux(std::int64_t step) const;  // value of the auxiliary losses at an even load
  // Returns [E], 1: the expert is in router.killed_experts; empty if no expert of the layer is.
  std::vector<std::uint8_t> killed(int layer, std::int64_t step) const;

  bool constant_weights(std::int64_t step) const;  // true if the settings leave the gates no gradient of the loss

  // Adds findings that follow from settings alone, up to the last step read: a router that is controlled by hand or
  // gets no gradient.
  void findings(std::vector<Finding>& out, StepRange read) const;
  // Adds what may have caused a finding to its text. A finding whose experts all have pinned biases becomes a note.
  void add_causes(Finding& finding) const;

 private:
  std::string name_of(Setting setting, const std::string& own_name) const;
  struct Change {
    Setting setting;
    Marker marker;
  };
  std::int64_t first_step_with(std::initializer_list<Setting> settings, StepRange read) const;
  void add_by_hand(std::vector<Finding>& out, StepRange read) const;
  void add_no_gradient(std::vector<Finding>& out, StepRange read) const;
  void find_router_causes(const Finding& finding, Causes& causes) const;
  void find_changes(const Finding& finding, Causes& causes) const;

  int run_ = 0, n_experts_ = 0, top_k_ = 0;
  std::vector<int> moe_layers_;
  SettingsTrack settings_;
  std::string other_balancing_;  // balancing that a log names: "balance = quantile histogram"; empty: none
  std::vector<Change> changes_;  // by step
  std::vector<Marker> notes_;    // notes and events
};

}  // namespace moescope
