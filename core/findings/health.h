// Whether the routers of a run are healthy, in a sentence: the worst layer and its experts by number, since which step,
// what balances them and what would help. It puts what the findings say (findings.h) into order and looks up a few
// figures of each layer, whatever the length of the run. Muted findings count as well: they are hidden, not mended.
//
// The load is that of the last 50 steps (router_window.h). Every text has shorter forms, so that none is ever cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/findings/findings.h"

namespace moescope {

enum class HealthVerdict {
  unknown,    // no load of the experts to judge by
  too_young,  // still settling, and nothing severe so far
  healthy,
  attention,  // the worst ongoing finding is a warning, or will be one if what is so now lasts
  unhealthy   // ... or severe
};
const char* health_verdict_name(HealthVerdict verdict);  // "Needs attention"

struct Health {
  HealthVerdict verdict = HealthVerdict::unknown;
  std::string sentence;              // without the verdict's name
  std::vector<std::string> shorter;  // the sentence in fewer words, long to short
  std::vector<std::string> balance;  // what balances the router, long to short; empty: not known
  std::string help;                  // what would help; empty: nothing needs to, or nothing is known
  int layer = -1;                    // the worst; -1: none
  std::vector<int> experts;          // of it, the worst first
  std::int64_t upto = -1;            // the newest step that it is about; -1: none
  std::int64_t since = -1;           // the step; -1: nothing is wrong
  std::string finding;               // finding_id of the one that it speaks of; empty: none
};

// Loads change most in the first steps of a training, also in runs that get even: an uneven load there is no finding.
// With the sign rule and a small rate a router may take several times as long.
inline constexpr std::int64_t kSettlingSteps = 150;

// What balances the router, and what would help; empty: nothing is known.
std::string advice_text(const Health& health);

// "Needs attention: Layer 3 ... Balance: bias update rate 0, no auxiliary loss. Try ...".
std::string health_text(const Health& health);

// Of what the scan has read.
Health judge_health(const FindingsScan& scan);

}  // namespace moescope
