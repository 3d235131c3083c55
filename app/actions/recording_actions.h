// Actions on an opened recording: replay it, resume training from its checkpoints, and train it again to check that it
// reproduces.
#pragma once

#include <cstdint>
#include <memory>

#include "app/actions/actions.h"

class QMenu;

namespace moescope {

class History;
class Replay;
struct RunInfo;

class RecordingActions : public Actions {
  Q_OBJECT

 public:
  RecordingActions(const Context& context, Replay* replay);

  void addActionsTo(QMenu* menu);

 private:
  std::int64_t stepsUpToCursor() const;
  void continueTraining();
  void askToReproduce();
  void reproduce(const RunInfo& first, const std::shared_ptr<const History>& history);

  Replay* replay_;
};

}  // namespace moescope
