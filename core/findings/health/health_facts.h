// The health of the routers of a run as values. judge() decides, health_text.cpp makes the sentences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/health.h"

namespace moescope {

enum class HealthReason {
  no_step,
  finding,    // an ongoing finding on routers
  all_dense,  // no layer has a router
  no_loads,
  too_young,
  begun,   // a condition that is not a finding yet
  forced,  // the experts are chosen in turn, whatever the scores are
  healthy
};

// What a scan has read.
struct ScannedRouters {
  explicit ScannedRouters(const FindingsScan& scan);
  const LayerLoad* load_of(int layer) const;  // nullptr: none
  float max_vio(int layer) const;             // of the window's summed loads; without loads, the figure in the history
  bool has_settled() const;

  const History& history;
  std::vector<Finding> findings, not_yet;
  std::vector<LayerLoad> loads;  // over the newest window; if every step has a load, over the last 50 steps
  std::int64_t last_step;        // newest step read
  LoadEvidence evidence;         // of the layer with most loads
};

struct HealthFacts {
  HealthVerdict verdict = HealthVerdict::unknown;
  HealthReason reason = HealthReason::no_step;
  const Finding* finding = nullptr;  // of ScannedRouters::findings, or of not_yet if it has begun
  bool settles = false;              // uneven since the first steps, but less than before
  int layer = -1;                    // worst layer; -1: none
  std::vector<int> layers;           // all layers with the finding
  std::vector<int> experts;          // of the worst layer, worst first
  // Share of all assignments that several fullest `experts` take, or the load of one, in units of its fair share; 0:
  // `experts` are those of the finding.
  double fullest_share = 0;
};
HealthFacts judge(const ScannedRouters& routers);

// What may even out a load.
struct KnownRemedy {
  Setting setting;
  const char* needless_value;  // value with which it would change nothing
  const char* effect;
  const char* source;
};
std::span<const KnownRemedy> known_remedies();

inline constexpr std::size_t kNamedExperts = 8;

// Sets the sentence, its shorter forms, what balances the routers, and what would help.
void write_texts(const ScannedRouters& routers, const HealthFacts& facts, Health& health);
// Makes the verdict on assumed loads a part of the sentence.
void write_assumption(const std::string& assumption, Health& health);
// Begins the texts with the worst finding on the training.
void write_training(const Finding& worst, Health& health);
// Removes forms that are not shorter than the one before.
void keep_shorter(Health& health);

}  // namespace moescope
