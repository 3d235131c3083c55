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
#include "core/history/settings_track.h"

namespace moescope {

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
  // Returns a sentence on what balances the router; empty: not known. Example:
  // "Nothing balances this router: bias_update_rate = 0, aux_coeff = 0."
  std::string balancing(std::int64_t step) const;
  // Returns what balances the router in a few words, from long to short: "Balance: bias update rate 0.001, no auxiliary
  // loss", "Balance: bias 0.001".
  std::vector<std::string> balance(std::int64_t step) const;
  // What turns a logged auxiliary loss into the part of the loss that is trained on (auxiliary_watch.h).
  AuxiliaryFactors auxiliary_factors(std::int64_t step) const;
  bool may_drop(std::int64_t step) const;  // false if the settings say that copies beyond the capacity are kept
  std::optional<double> even_aux(std::int64_t step) const;  // value of the auxiliary losses at an even load
  // Returns [E], 1: the expert is in router.killed_experts; empty if no expert of the layer is.
  std::vector<std::uint8_t> killed(int layer, std::int64_t step) const;

  // Adds findings that follow from settings alone, up to the last step read: a router that is controlled by hand or
  // gets no gradient.
  void findings(std::vector<Finding>& out, StepRange read) const;
  // Adds the interventions that may have caused a finding to its text. A finding whose experts all have pinned biases
  // becomes a note.
  void add_causes(Finding& finding) const;

 private:
  struct Change {
    Setting setting;
    Marker marker;
  };
  std::vector<std::string> bias_words(const RunSettings& now) const;
  std::int64_t since(std::initializer_list<Setting> settings, StepRange read) const;
  void add_by_hand(std::vector<Finding>& out, StepRange read) const;
  void add_no_gradient(std::vector<Finding>& out, StepRange read) const;
  void add_expert_causes(Finding& finding) const;
  void add_router_causes(Finding& finding) const;
  void add_change_causes(Finding& finding) const;

  int run_ = 0, n_experts_ = 0, top_k_ = 0;
  std::vector<int> moe_layers_;
  SettingsTrack settings_;
  std::string other_balancing_;  // balancing that a log names: "balance = quantile histogram"; empty: none
  std::vector<Change> changes_;  // by step
  std::vector<Marker> notes_;    // notes and events
};

}  // namespace moescope
