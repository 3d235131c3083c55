// Watches whether the load of one MoE layer oscillates.
//
// It judges 50 logged loads at a time, and for slow oscillations 240 loads as means of 5. The load oscillates if its
// deviations from the mean are anticorrelated at some lag, up to 8 loads or up to 60, while the batch MaxVio is high:
// twice the value of chance and twice the MaxVio of the loads together. A slow oscillation must also be correlated at
// twice this lag, as a drift is not. Batches with alternating kinds of text are anticorrelated too (-0.3 to -0.47 at a
// lag of 1 in healthy presets), so the bias decides: its step must be large compared with the score margin. The step
// was 0.02 of the margin in these presets, and 0.3 to 2.7 in runs that oscillate (rates 0.03 and 0.1). The margin must
// be meaningful: see GateWatch::says_nothing(). If loads are logged on some steps only, their correlation shows little,
// and the step of the sign rule alone decides. If the step is not known, the anticorrelation must exceed that of
// alternating batches, and the finding gives no cause.
//
// Texts that alternate are a note (alternates_with_texts()).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/findings/recent_load.h"

namespace moescope {

inline constexpr int kLags = 8;
inline constexpr double kAnticorrelated = -0.25, kStronglyAnticorrelated = -0.55;
inline constexpr double kOscillatingMaxVio = 0.5, kTimesChance = 2;  // kTimesChance: times the value of chance
// If the step of the bias is not known, kFarAnticorrelated suffices for batches whose MaxVio exceeds the value of
// chance by kFarOscillating, while the MaxVio of their loads together is below kEvenTogether of theirs. Presets at a
// rate of 0.1 begin with a MaxVio of 1.3 to 1.9.
inline constexpr double kFarOscillating = 1, kEvenTogether = 0.2, kFarAnticorrelated = -0.3;
inline constexpr double kLargeBiasStep = 0.25;
// A slow oscillation: means of so many loads, so many of which are judged together; lags in means.
inline constexpr std::size_t kLoadsOfMean = 5, kJudgedMeans = 48;
inline constexpr int kFirstSlowLag = 2, kSlowLags = 12;
inline constexpr double kSlowAnticorrelated = -0.3, kSlowCorrelated = 0.25;

// Step of the bias, which GateWatch determines.
struct BiasStep {
  bool is_known = false;
  double margin_ratio = 0;  // mean |change of the bias in a step| over the score margin
  double margin = 0;
  bool by_sign_rule = true;  // as far as known; the quantile rule may move the bias by any distance in a step
};

// Successive loads of a layer as a series of n rows (loads, or means of loads) of E experts.
// Autocorrelations of the rows' deviations from their mean at the lags 0 to `lags` < n; all 0 if the rows are equal.
std::vector<double> autocorrelations(std::span<const float> rows_nE, std::span<const float> mean_E, int lags);

// Returns true if rows that alternate do so with the kind of text. Most of them are then near one of two states, with
// several successive rows in each; or the loss alternates as well; or the mean of the rows is nearly as uneven as they
// are, while a bias that overshoots makes it even. `losses_n` may be empty or NaN.
bool alternates_with_texts(std::span<const float> rows_nE, std::span<const float> mean_E,
                           std::span<const float> losses_n);

class OscillationWatch {
 public:
  // `load` must have read the block. Returns the oscillation that ended with it.
  std::optional<LoadEpisode> block(const LoadBlock& block, const RecentLoad& load, const BiasStep& bias_step);

  void findings(const RecentLoad& load, std::vector<Finding>& out) const;
  // Sets Finding::observation; extends the title.
  static void describe(const LoadEpisode& oscillation, const StepAxis& axis, Finding& finding);

 private:
  // Loads, or means of successive loads, that are not judged yet.
  struct Series {
    std::vector<float> rows;          // [n, E]
    std::vector<float> losses;        // [n], NaN: not known
    std::vector<std::int64_t> steps;  // [n] positions
    std::size_t size() const { return steps.size(); }
    void forget(std::size_t n);  // forgets the oldest n
  };
  struct Anticorrelation {
    int lag = 0;  // in loads; lag of the lowest correlation
    double correlation = 0;
  };
  // Measures of oscillation over a series.
  struct Swing {
    Anticorrelation deepest;
    double max_vio = 0;            // mean over the batches
    double together_max_vio = 0;   // MaxVio of the summed loads
    std::int64_t stride = 1;       // steps between two loads
    bool texts_alternate = false;  // the kind of text alternates
    BiasStep bias_step;
  };
  // State of the fast or of the slow oscillation.
  struct Episode {
    std::int64_t first_step = -1, last_shown = -1;
    int windows = 0;        // windows with oscillation in the present episode
    int quiet_windows = 0;  // consecutive windows without oscillation
    Swing newest;
  };
  void keep(const LoadBlock& block);
  void keep_mean(std::size_t first);
  Swing swing(const Series& series, const RecentLoad& load, const BiasStep& bias_step) const;
  static double mean_max_vio(const Series& series, std::size_t experts);
  static bool is_uneven_by_turns(const Swing& swing, const RecentLoad& load) {
    return swing.max_vio > kOscillatingMaxVio && swing.max_vio > kTimesChance * load.chance().batch_max_vio &&
           swing.together_max_vio < swing.max_vio / 2;
  }
  bool oscillates(const RecentLoad& load, Swing& swing) const;
  // The step of the bias does not show the cause of a slow oscillation.
  bool oscillates_slowly(const RecentLoad& load, Swing& swing) const {
    swing.bias_step = {};
    return is_uneven_by_turns(swing, load) && swing.deepest.correlation < kSlowAnticorrelated;
  }
  std::optional<LoadEpisode> follow(bool is_swinging, const Swing& swing, const Series& series, int lasting,
                                    Episode& episode);
  void add(const RecentLoad& load, const Episode& episode, std::vector<Finding>& out) const;

  Series loads_, means_;
  Episode fast_, slow_;
};

}  // namespace moescope
