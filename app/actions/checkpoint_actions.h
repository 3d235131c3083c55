// Actions on checkpoints of the run in training: keep one, rewind to one, branch a twin off one.
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

}  // namespace moescope
