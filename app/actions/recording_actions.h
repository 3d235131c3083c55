// Recordings: played again and again, trained on from their checkpoints, and trained once more to see whether they come
// out the same.
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
