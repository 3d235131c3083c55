// The verdicts on the open runs: their gaps to run A, the judged loss, and the gap that matters. The parts of the
// Compare workspace share one object, so that they agree and gaps are read only once.
#pragma once

#include <QObject>
#include <QString>
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/verdict_words.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

// Fewest and most seeds that one click adds.
inline constexpr int kSeedsAtOnce = 3, kMaxSeedsAtOnce = 16;

// Returns the number of decimal places that show two digits of `matters`, the smallest gap that matters.
int placesFor(float matters);
QString signedFixed(float value, int places);
QString gapText(const Conclusion& conclusion);  // "+0.0037 \u00b1 0.0067", with the places of the table of verdicts

class JudgedRuns : public QObject {
  Q_OBJECT

 public:
  enum class Loss {
    deciding,  // the loss that the settings of each run imply (deciding_loss)
    training,
    validation
  };

  JudgedRuns(Selection* selection, const ComparedRuns* runs, QObject* parent = nullptr);

  // Reads the steps of the present frame, once for all parts. Returns why there is nothing to judge; empty if each run
  // except run A has a conclusion.
  QString update();
  const GapTrack& track(int place) const { return training_.track(pairOf(place)); }  // gaps of the training loss
  const Conclusion& conclusion(int place) const;
  // Verdicts of the run in the course of the training; none of a noise twin, and none over several seeds.
  const std::vector<PastVerdict>& past(int place);
  // Step of the cursor, in steps of the baseline: all verdicts are those of this step. kNoLastStep: the newest steps
  // are followed, or the steps are batches of text.
  std::int64_t lastStep() const;
  std::vector<int> candidates() const;  // places of the runs that are judged

  int baseline() const { return baseline_; }  // place of the run that the others are compared with
  QString baselineLetter() const { return runLetter(*selection_, baseline_); }
  // Noise twins cannot be the baseline. The baseline is run A again if the run is closed.
  void setBaseline(int place);
  float matters() const;  // gap that matters, nats/token; kNoValue: no run was compared yet
  // Returns what would settle open verdicts, with indices of candidates().
  Settlement settlement() const;
  // Conclusions of the open seed on the candidates at the newest step, wherever the cursor is.
  std::vector<Conclusion> newestConclusions();
  // Conclusions on the open seed alone, up to the end that its settings plan, so that all seeds have as many steps.
  std::vector<Conclusion> openSeed();
  // The same comparison with earlier seeds: openSeed() of each, and how many seeds train after the open one. Another
  // baseline forgets them. Once all have ended, each conclusion at the newest step is that over all seeds.
  void setSeeds(std::vector<std::vector<Conclusion>> seeds, int seeds_left) {
    seeds_ = std::move(seeds);
    seeds_left_ = seeds_left;
    emit changed();
  }
  const std::vector<std::vector<Conclusion>>& seeds() const { return seeds_; }
  int seedsLeft() const { return seeds_left_; }
  // The conclusion over the earlier seeds while the open one trains; nullopt: there are none, or it has ended.
  std::optional<Conclusion> earlierSeeds(int place) const;
  bool isOverSeeds() const { return !over_seeds_.empty(); }
  // "4 seeds" if the conclusions are those over all seeds, "seed 2 of 4" if they are those of this one; empty: one
  // seed.
  QString seedText() const;
  bool dependsOnSeed() const;  // further seeds would tell more
  // Seeds that one click adds: as many as may settle the open verdicts.
  int seedsToAdd() const;
  // "B may take about 17 seeds in all", in full and short; empty: several seeds leave no verdict open.
  QStringList openSeedsForms() const;

  Loss loss() const { return loss_; }
  void setLoss(Loss loss) {
    if (std::exchange(loss_, loss) != loss) emit changed();
  }
  bool room() const { return room_; }  // true if another run can train beside the open runs
  void setRoom(bool room) {
    if (std::exchange(room_, room) != room) emit changed();
  }
  // Whether the open runs can start again with forced balance.
  void setCanForce(bool can_force) {
    if (std::exchange(can_force_, can_force) != can_force) emit changed();
  }
  bool live() const { return live_; }
  void setLive(bool live) {
    if (std::exchange(live_, live) != live) emit changed();
  }
  // Step before which the runs that train will pause; 0: they are paused.
  std::int64_t goal() const { return goal_; }
  void setGoal(std::int64_t step) {
    if (std::exchange(goal_, step) != step) emit changed();
  }
  // Present seconds of a step of all open runs; kNoValue if they do not train, or not in lock-step.
  float secondsPerStep() const { return seconds_per_step_; }
  void setSecondsPerStep(float seconds) { seconds_per_step_ = seconds; }

 signals:
  void changed();  // the judged runs or the rule have changed

 private:
  // Number of runs of the last update() that are still open. Text may be painted after a change of runs and before the
  // next update().
  int judged() const { return std::min(training_.runs(), to_int(selection_->histories().size()) - 1); }
  Metric judgedLoss(int place) const;
  std::vector<Conclusion> overSeeds();
  int knownSeeds() const { return to_int(seeds_.size()) + 1; }  // with the open one
  // The candidates that several seeds leave open, and about how many seeds would settle them. Those that more seeds
  // than one click adds leave open, and would leave open after as many again, have gaps at the edge of the band.
  struct OpenSeeds {
    QStringList letters, at_edge;
    double seeds = 0;
    float half_width_at_edge = 0;
  };
  OpenSeeds openSeeds() const;
  bool isByTraining(int place) const;  // judged by the training loss
  // Index of the run in ComparedRuns::otherRuns(), counted from 1.
  int pairOf(int place) const { return place == 0 ? baseline_ : place; }

  Selection* selection_;
  const ComparedRuns* runs_;
  bool is_stale_ = true;  // the frame, the runs or the rule have changed since update()
  RunGaps training_, validation_{Metric::val_loss};
  Loss loss_ = Loss::deciding;
  bool room_ = false, live_ = false, can_force_ = false;
  int baseline_ = 0;
  std::int64_t goal_ = 0, shown_last_step_ = kNoLastStep;
  float seconds_per_step_ = kNoValue;
  std::vector<std::vector<Conclusion>> seeds_;
  std::vector<Conclusion> over_seeds_;  // of candidates(); empty: the conclusions are those of the open seed
  int seeds_left_ = 0;
};

}  // namespace moescope
