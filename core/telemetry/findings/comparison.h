// Comparison of runs: gaps, the seed-noise band, final figures, and a conclusion in words.
//
// A gap is b - a at equal steps; steps that only one run took have none. Smoothed means an exponential moving average
// over every step from the first that both took (gap_track.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/telemetry/findings/gap_track.h"
#include "core/telemetry/history/history.h"

namespace moescope {

// The seed-noise band: runs that differ only in their seed also differ in loss. Its half width at a step is kBandFactor
// times the smoothed |gap| of such runs, averaged over all pairs of them.
//
// Why |gap| is smoothed rather than gap: the smoothed gap of one pair of seeds crosses zero at times, where the band
// would have no width; |gap| also contains the spread of single steps, which does not vanish.
//
// Its power, measured with the preset nano in BF16 over 600 steps and 16 seeds on the same batches (smoothed losses of
// two seeds lie 0.04 nats apart, single steps 0.06) and one twin for the band: of two equal runs, the factor 2 calls 1
// in 50 different at the end (2.5: 1 in 100, 1.5: 1 in 12). A run worse by 0.05 nats is found 1 time in 7, by 0.1 in 2
// of 5, by 0.2 in 6 of 7: "inside" says that a difference would be smaller than what a seed makes, not that there is
// none. A second twin makes the band more stable (MXFP4 everywhere is 0.2 nats worse: found with 14 of 15 twins) but
// not narrower: that takes longer runs and smaller learning rates.
inline constexpr double kBandFactor = 2;
// A smoothed gap counts as outside the band only if it stays outside for this many steps; shorter comparisons get no
// verdict.
inline constexpr std::int64_t kLastingSteps = 50;

// Min, max, mean and count of the gaps in `bins` equal slices of `range`.
std::vector<PyramidBin> gap_series(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                   int bins);
// The smoothed gap at the last step of each bin; kNoValue where the bin has none.
std::vector<float> smoothed_gap(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                int bins);
// Half width of the seed-noise band at the last step of each bin (draw it as -w to +w); kNoValue: none there.
// `same_settings`: the first run and those that differ from it only in seed. Fewer than two give no band.
std::vector<float> noise_band(std::span<const HistoryPtr> same_settings, Metric metric, int layer, StepRange range,
                              int bins);

// The first step at which |loss_b - loss_a| > epsilon, or only one of the losses is NaN or infinite.
inline constexpr double kGapEpsilon = 0.05;  // unless the user chooses another
std::optional<std::int64_t> first_difference(const History& a, const History& b, double epsilon);

// u_e of b minus u_e of a for every expert of one layer at one step (u_e = n_e E / (K T)), [E]; empty when the layers
// have different numbers of experts.
std::vector<float> load_difference(const RouterFrame& a, const RouterFrame& b);

// A row of the table of runs. Means are over the finite values of `window`.
struct RunFigures {
  int run = 0;
  std::string name;
  std::int64_t steps = 0;               // taken, of `window`'s last step
  float final_loss = kNoValue;          // at window.last
  float mean_loss = kNoValue;           // ce_loss
  float max_vio = kNoValue;             // of the batch, mean over layers
  float tokens_per_s = kNoValue;        // of this run alone
  float sqnr_db = kNoValue;             // mean over quantized operands; kNoValue: nothing is quantized
  float flip_rate = kNoValue;           // against run 0
  float rounding_flip_rate = kNoValue;  // against FP32 on the same weights
  float gradient_cosine = kNoValue;
};
RunFigures run_figures(const History& history, StepRange window);
// The last `n` steps that all runs took (fewer when there are fewer).
StepRange last_common_steps(std::span<const HistoryPtr> histories, std::int64_t n);

enum class Verdict {
  too_short,  // fewer than kLastingSteps steps in common
  identical,  // the losses are equal to the bit
  no_band,    // no noise twin, so the noise is not known
  inside,
  returned,  // was out of the band for at least kLastingSteps steps and came back
  outside,   // has been out of the band for at least kLastingSteps steps at the end
  lost       // only one of the losses is NaN or infinite at the end
};

struct Conclusion {
  Verdict verdict = Verdict::too_short;
  StepRange steps;  // judged
  // outside: up to the end; returned: the longest stretch outside; lost: from there on; inside: a stretch at the
  // beginning, when the band is still as narrow as rounding.
  StepRange out;
  float gap = kNoValue;   // smoothed, of ce_loss, at the last step; returned: the largest within `out`
  float band = kNoValue;  // half width at that step
  std::string text;       // one sentence that names the runs
};
// `same_settings` as for noise_band; it may hold a and b.
Conclusion conclude(const History& a, const History& b, std::span<const HistoryPtr> same_settings);

// The same for runs in training, for cross-entropy: an update costs only the new steps.
class RunGaps {
 public:
  // The others are compared with the first; `same_settings` as for noise_band. Results of pairs that stay are kept.
  void set(const std::vector<HistoryPtr>& runs, const std::vector<HistoryPtr>& same_settings);
  void update();  // adds the new steps

  // For the run at `place`, counted from 1.
  std::vector<PyramidBin> series(int place, StepRange range, int bins) const;
  std::vector<float> smoothed(int place, StepRange range, int bins) const;
  std::optional<std::int64_t> first_difference(int place, double epsilon) const;
  const Conclusion& conclusion(int place) const;
  // Empty: fewer than two runs of the same settings.
  std::vector<float> band(StepRange range, int bins) const;
  std::size_t band_pairs() const { return pairs_.size(); }  // whose gaps make the band

 private:
  std::vector<GapTrack> tracks_;  // of the runs but the first
  std::vector<GapTrack> pairs_;   // of runs of the same settings
  std::vector<Conclusion> conclusions_;
};

}  // namespace moescope
