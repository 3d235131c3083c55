// Interventions: what a person has set or changed that may cause findings, such as killed experts, pinned biases, a
// frozen router, changes while it trained. A finding that follows from an intervention names it.
//
// Known for runs with a config, as trained here; of logs of other programs only what their first line says of
// balancing, which is cited with the log's own keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/history/settings_track.h"

namespace moescope {

class Interventions {
 public:
  Interventions() = default;
  explicit Interventions(const History& history);

  // Whether scores are by softmax, or else by sigmoid; nullopt: not known, or neither.
  std::optional<bool> softmax(std::int64_t step) const;
  bool quantiles_balance(std::int64_t step) const;           // and not the sign rule
  bool sign_rule(std::int64_t step) const;                   // no other rule is known to move the bias
  std::optional<double> bias_rate(std::int64_t step) const;  // of the sign rule; nullopt: another rule, or not known
  bool nothing_balances(std::int64_t step) const;            // known to have neither a bias rate nor an auxiliary loss
  // What balances the router, as a sentence: "Nothing balances this router: bias_update_rate = 0, aux_coeff = 0.";
  // empty: not known.
  std::string balancing(std::int64_t step) const;
  // The same in a few words, long to short: "Balance: bias update rate 0.001, no auxiliary loss", "Balance: bias
  // 0.001".
  std::vector<std::string> balance(std::int64_t step) const;
  std::optional<double> even_aux(std::int64_t step) const;  // value of the auxiliary losses at an even load
  // [E] 1: router.killed_experts names it; empty: none of the layer.
  std::vector<std::uint8_t> killed(int layer, std::int64_t step) const;

  // Findings that follow from settings alone, up to the last step read: a router that is controlled by hand, or gets no
  // gradient.
  void findings(std::vector<Finding>& out, StepRange read) const;
  // Adds to a finding's text the interventions that may have caused it; a finding with no other cause becomes a note.
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

  int run_ = 0, n_experts_ = 0;
  bool has_config_ = false;
  std::vector<int> moe_layers_;
  SettingsTrack settings_;
  std::string other_balancing_;  // that a log names: "balance = quantile histogram"; empty: none
  std::vector<Change> changes_;  // by step
  std::vector<Marker> notes_;    // and events
};

}  // namespace moescope
