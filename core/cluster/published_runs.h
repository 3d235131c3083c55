// Published training runs of DeepSeek-V3 671B, the step model's fit to three of them, and its checks against the
// others.
//
// Three parameters are fitted to three runs on 256 B200s, so that these bars agree is no validation. A pair on 512
// H100s is the check: nothing is fitted to it. Which of two readings of the B200 runs is right is not known
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
  AllToAll way;
  const char* source;
};
std::span<const PublishedRun> published_b200_runs();  // 651, 859, 918
std::span<const PublishedRun> published_h100_runs();  // 346, 579: never fitted to

StepConfig published_b200_config(bool mxfp8, AllToAll way);  // 671B, 256 GPUs, forced routing, EP 32
StepConfig published_h100_config(AllToAll way);              // 671B, 512 GPUs, forced routing, EP 32

// The three parameters from the three B200 runs; computed once.
const StepParameters& fit_to_published(Hypothesis hypothesis);

// A number that is not known: the two ends of its range.
struct OpenNumber {
  const char* name;
  const char* unit;
  double slow, fast;
  const char* why;
};
// On the B200s of the fit the three runs determine attention and latency; elsewhere these have a range as well.
std::vector<OpenNumber> open_numbers(const StepConfig& config);

// Throughput with all of them at their slow, and at their fast ends.
struct Band {
  double low, high;  // tokens/s/GPU
};
Band throughput_band(const StepConfig& config, Hypothesis hypothesis);

struct BarComparison {
  std::string name;
  double published;  // tokens/s/GPU; NaN: none, a prediction
  double modelled;
  Band band;
  const char* standing;                                      // "fitted", "predicted", "check, not fitted"
  double error() const { return modelled / published - 1; }  // NaN: nothing was published
  bool in_band() const { return published >= band.low && published <= band.high; }
  // The error and whether the band holds the published figure; empty: nothing was published.
  std::string verdict() const;
};
// The three bars, MXFP8 with standard all-to-all, and the H100 pair.
std::vector<BarComparison> compare_with_published(Hypothesis hypothesis);

// What the H100 pair says about a reading: DeepEP's gain there, and the network rate at which the model would agree.
struct PairCheck {
  Hypothesis hypothesis;
  double published_gain, modelled_gain;  // shares
  double implied_network_GBps;           // of the standard all-to-all there, from the two published times
  double fitted_network_GBps;            // on the B200s
};
PairCheck check_with_pair(Hypothesis hypothesis);
// DeepEP's gain on the pair under both readings, in words, the worse one named.
std::string pair_verdict();
// The network rate that the pair implies beside the fitted one, in words.
std::string pair_network(Hypothesis hypothesis);

}  // namespace moescope
