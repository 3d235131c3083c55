// Published training runs of DeepSeek-V3 671B, the step model's fit to three of them, and its checks against the other
// runs.
//
// Three parameters are fitted to three runs on 256 B200s, so agreement with these is no validation. A pair of runs on
// 512 H100s is the check: nothing is fitted to it. It is unknown which of two readings of the B200 runs is right
// (Hypothesis).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/cluster/step_model.h"

namespace moescope {

struct PublishedRun {
  const char* name;
  double tokens_per_second;  // per GPU
  bool mxfp8;
  AllToAll all_to_all;
  const char* source;
};
std::span<const PublishedRun> published_b200_runs();  // 651, 859, 918
std::span<const PublishedRun> published_h100_runs();  // 346, 579; not used by the fit

StepConfig published_b200_config(bool mxfp8, AllToAll kind);  // 671B, 256 GPUs, forced routing, EP 32
StepConfig published_h100_config(AllToAll kind);              // 671B, 512 GPUs, forced routing, EP 32

// Returns the three parameters fitted to the three B200 runs; computed once.
const StepParameters& fit_to_published(Hypothesis hypothesis);

// An unknown number: the two ends of its range.
struct OpenNumber {
  const char* name;
  const char* unit;
  double slow, fast;
  const char* reason;
};
// Returns the unknown numbers. On the B200s of the fit, the three runs determine attention and latency; on other
// hardware, latency is unknown as well, and so is attention if its rate is assumed.
std::vector<OpenNumber> open_numbers(const StepConfig& config);

// Throughput with all unknown numbers at their slow ends, and at their fast ends.
struct Band {
  double low, high;  // tokens/s/GPU
};
Band throughput_band(const StepConfig& config, Hypothesis hypothesis);

struct BarComparison {
  std::string name;
  double published;  // tokens/s/GPU; NaN for a prediction without a published run
  double modelled;
  Band band;
  const char* standing;                                      // "fitted", "predicted", "check, not fitted"
  double error() const { return modelled / published - 1; }  // NaN if nothing was published
  bool in_band() const { return published >= band.low && published <= band.high; }
  // Returns the error and whether the band contains the published figure, as text; empty if nothing was published.
  std::string verdict() const;
};
// Returns the three B200 runs, MXFP8 with standard all-to-all, and the H100 pair.
std::vector<BarComparison> compare_with_published(Hypothesis hypothesis);

// The check of a reading with the H100 pair: DeepEP's gain on the pair, and the network rate with which the model would
// agree.
struct PairCheck {
  Hypothesis hypothesis;
  double published_gain, modelled_gain;  // shares
  double implied_network_GBps;           // rate of the standard all-to-all there, from the two published times
  double fitted_network_GBps;            // rate on the B200s
};
PairCheck check_with_pair(Hypothesis hypothesis);
// Returns a sentence with DeepEP's gain on the pair under both readings, which names the worse reading.
std::string pair_verdict();
// Returns a sentence with the network rate that the pair implies and the fitted one.
std::string pair_network(Hypothesis hypothesis);

}  // namespace moescope
