// The verdicts over the open runs: their gaps to run A, which loss is judged, and what gap matters. The parts of the
// Compare workspace share one, so that they agree, and gaps are read once.
#pragma once

#include <QObject>
#include <QString>
#include <vector>

#include "core/comparison/comparison.h"
#include "core/comparison/verdict_words.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

class JudgedRuns : public QObject {
  Q_OBJECT

 public:
  enum class Loss {
    deciding,  // as the settings of each run say (deciding_loss)
    training,
    validation
  };

  JudgedRuns(Selection* selection, const ComparedRuns* runs, QObject* parent = nullptr);

  // Takes in new steps. Returns why there is nothing to judge; empty: there is a conclusion for each run beside run A.
  QString update();
  const RunGaps& gaps() const { return training_; }  // of the training loss
  const Conclusion& conclusion(int place) const;
  std::vector<int> candidates() const;  // places of the runs that are judged
  float matters() const;                // nats/token; kNoValue: no run was measured against it yet
  // What would settle open verdicts; its places are those of candidates().
  Settlement settlement() const;

  double share() const { return share_; }  // of run A's loss that matters
  void setShare(double share);
  Loss loss() const { return loss_; }
  void setLoss(Loss loss);
  bool room() const { return room_; }  // for another run beside those in training
  void setRoom(bool room);
  bool live() const { return live_; }
  void setLive(bool live);
  // Of a step of all open runs, as measured just now; kNoValue: they do not train, or not side by side.
  float secondsPerStep() const { return seconds_per_step_; }
  void setSecondsPerStep(float seconds) { seconds_per_step_ = seconds; }

 signals:
  void changed();  // what is judged, or how

 private:
  int judged() const;
  Metric judgedLoss(int place) const;

  Selection* selection_;
  const ComparedRuns* runs_;
  RunGaps training_, validation_{Metric::val_loss};
  double share_ = kMatters;
  Loss loss_ = Loss::deciding;
  bool room_ = false, live_ = false;
  float seconds_per_step_ = kNoValue;
};

}  // namespace moescope
