// Judges whether the routers of a run are healthy, in a sentence that names the worst layer, its experts and the step
// since which it is unhealthy, and whether the training is lost; further texts say what balances
// the routers and what would help. The judgement uses the findings (findings.h) and a few figures of each layer, and
// takes a time that does not depend on the length of the run. Muted findings count as well, because muting only hides
// them.
//
// The load is that of the last 50 steps (router_window.h). Every text has shorter forms, so that no text is ever cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/numerics/names.h"

namespace moescope {

enum class HealthVerdict {
  unknown,    // no load of the experts, or too few tokens in the texts of a checkpoint
  assumed,    // the loads were found by the shape of their values alone: to be confirmed
  too_young,  // the load still settles, and there is no severe finding
  healthy,
  attention,  // the worst ongoing finding is a warning, or will be one if the present condition lasts
  unhealthy,  // the worst ongoing finding is severe
  lost        // the training is lost, whatever its routers are: a severe finding on the loss or the gradient
};
inline constexpr auto health_verdict_name = names_of<HealthVerdict>(
    "Cannot tell", "Loads assumed", "Too early to tell", "Healthy", "Needs attention", "Unhealthy", "Training lost");

// A setting that may even out the load.
struct Remedy {
  std::string name;  // as the program that wrote the log calls it; "checkpoint" for a restart from one
  std::string text;  // its value in this run, its effect, and the source
};

struct Health {
  HealthVerdict verdict = HealthVerdict::unknown;
  HealthVerdict router = HealthVerdict::unknown;  // of the routers alone, never `lost`
  std::string training;              // worst finding on the training: "The loss diverged at step 800."; empty: none
  std::string sentence;              // without the verdict's name
  std::vector<std::string> shorter;  // shorter forms of the sentence, long to short
  std::vector<std::string> balance;  // what balances the router, from long to short; empty: not known
  std::string help;                  // what would help; empty: no help is needed, or none is known
  std::vector<Remedy> remedies;      // of an uneven load
  int layer = -1;                    // worst layer; -1: none
  std::vector<int> experts;          // experts of that layer, worst first
  std::int64_t last_step = -1;       // newest step of the judgement; -1: none
  std::int64_t first_step = -1;      // step since which the layer is unhealthy; -1: it is healthy
  std::string finding;               // finding_id of the described finding; empty: none
};

// The fewest experts that take nearly all assignments, else half of them, if they are at most a quarter of all experts
// and a sentence can name them; else the fullest one.
struct FullestExperts {
  std::vector<int> experts;  // the fullest first
  double share = 0;          // of all assignments; of one expert its load in units of its fair share
};
FullestExperts fullest_experts(std::vector<float> load);  // in units of the fair share, [experts]

// Loads change most in the first steps of a training, also in runs that become even, so an uneven load in these steps
// is not a finding. With the sign rule and a small rate the load of a router may take several times as long to settle.
inline constexpr std::int64_t kSettlingSteps = 150;

// Returns what balances the router and what would help; empty if nothing is known.
std::string advice_text(const Health& health);

// Returns "Needs attention: Layer 3 ... Balance: bias update rate 0, no auxiliary loss. Try ...".
std::string health_text(const Health& health);

// Judges the steps that the scan has read.
Health judge_health(const FindingsScan& scan);

// Least number of tokens of an even share for a judgement of a checkpoint; the probability that an expert misses so
// many by chance is exp(-20).
inline constexpr double kMinToJudge = 20;

// Judges the routers of a checkpoint on the texts of RunInfo::domains[domain] (nullopt: on all texts) by the load of
// all batches together (SpecialisationFrame::domain_DE). Unlike in a training, a condition does not have to last, since
// the routers do not change between batches. Thresholds are those of the watches: load_watch.h, expert_watch.h,
// imbalance_watch.h. The verdict is `unknown` if the history has no loads by domain, or too few tokens.
Health judge_texts(const History& history, std::optional<std::size_t> domain = {});

}  // namespace moescope
