// What a person has set or changed that bears on a run's findings: experts that are switched off, biases that are held,
// a router that rests, changes made while it trained. A finding that follows from it says so, instead of telling it as
// if it had come by itself.
//
// Of runs with a config, as trained here; of other logs nothing is known, and nothing is said.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/telemetry/findings/findings.h"

namespace moescope {

class HandSettings {
 public:
  HandSettings() = default;
  explicit HandSettings(const History& history);

  std::optional<bool> softmax(std::int64_t step) const;     // of the scores; nothing: not known
  bool nothing_balances(std::int64_t step) const;           // known: neither a bias rate nor an auxiliary loss
  std::optional<double> even_aux(std::int64_t step) const;  // what the auxiliary losses come to at an even load
  // [E] 1: router.killed_experts names it; empty: none of the layer.
  std::vector<std::uint8_t> killed(int layer, std::int64_t step) const;

  // Findings that the settings alone make, up to and with step `last`: a router that is held by hand, one that nothing
  // teaches.
  void findings(std::vector<Finding>& out, StepRange read) const;
  // Adds to a finding's words what a person did that it may follow from; a finding that is nothing else becomes a note.
  void name_in(Finding& finding) const;

 private:
  std::string value(const std::string& key, std::int64_t step) const;  // empty: not known, or empty
  double number(const std::string& key, std::int64_t step) const;      // NaN: not known
  bool holds(const std::string& key, std::int64_t step) const { return value(key, step) == "true"; }
  std::int64_t since(std::initializer_list<const char*> keys, StepRange read) const;
  void add_by_hand(std::vector<Finding>& out, StepRange read) const;
  void add_untaught(std::vector<Finding>& out, StepRange read) const;
  void name_experts(Finding& finding) const;
  void name_router(Finding& finding) const;
  void name_changes(Finding& finding) const;

  int run_ = 0, n_experts_ = 0;
  std::vector<int> moe_layers_;
  std::map<std::string, std::string> at_start_;
  std::vector<Marker> changes_;  // in order of their steps
  std::vector<Marker> notes_;    // and events
};

}  // namespace moescope
