// Checkpoints of the run in training: kept, gone back to, and branched off from with a twin.
#pragma once

#include <optional>
#include <vector>

#include "app/actions/actions.h"
#include "core/training/engine/checkpoint_ring.h"

class QMenu;

namespace moescope {

class ActionsDock;

class CheckpointActions : public Actions {
  Q_OBJECT

 public:
  CheckpointActions(const Context& context, ActionsDock* dock);

  void addActionsTo(QMenu* menu);               // about the cursor's step
  void addActionsTo(QMenu* menu, qint64 step);  // about the checkpoint nearest to this step
  void showKept();                              // in the dock and on the timelines

 signals:
  void wentBack();  // what was done after the checkpoint is undone with it

 private:
  std::vector<KeptCheckpoint> kept() const;
  std::optional<qint64> keptBefore(qint64 step) const;  // at the step, before it, else the first there is
  void keepNow();
  void rewind(qint64 step);
  void askForBranch(qint64 step);

  ActionsDock* dock_;
};

}  // namespace moescope
