// Actions on an opened recording: resume training from its checkpoints, and train it again to check that it reproduces.
#pragma once

#include <cstdint>
#include <memory>

#include "app/actions/actions.h"

class QMenu;

namespace moescope {

class History;
struct RunInfo;

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
