// Actions on checkpoints, of the run in training and of an opened recording.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "app/actions/actions.h"
#include "core/training/engine/checkpoint_ring.h"

namespace moescope {

class ActionsDock;

// Keeps a checkpoint of the run in training, rewinds to one, branches a twin off one.
class CheckpointActions : public Actions {
  Q_OBJECT

 public:
  CheckpointActions(const Context& context, ActionsDock* dock);

  void addActionsTo(QMenu* menu);               // entries about the cursor's step
  void addActionsTo(QMenu* menu, qint64 step);  // entries about the checkpoint nearest to `step`
  void showKept();                              // lists the kept checkpoints in the dock and on the timelines

 signals:
  void wentBack();  // the runs were rewound: changes made after the checkpoint are gone

 private:
  std::vector<KeptCheckpoint> keptCheckpoints() const;
  std::optional<qint64> checkpointAtOrBefore(qint64 step) const;  // newest kept step up to `step`, else the first one
  void keepNow();
  void rewind(qint64 step);
  void askForBranch(qint64 step);

  ActionsDock* dock_;
};

// Resumes an opened recording from its checkpoints, and trains it again to check that it reproduces.
class RecordingActions : public Actions {
  Q_OBJECT

 public:
  explicit RecordingActions(const Context& context);

  void addActionsTo(QMenu* menu);

 private:
  std::int64_t stepsUpToCursor() const;
  void continueTraining();
  void askToReproduce();
  void reproduce(const RunInfo& first, const std::shared_ptr<const History>& history);
};

}  // namespace moescope
