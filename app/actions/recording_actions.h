// Recordings: played again and again, trained on from their checkpoints, and trained once more to see whether they come
// out the same.
#pragma once

#include <QObject>
#include <cstdint>
#include <memory>

class QMenu;

namespace moescope {

class History;
class Messages;
class Replay;
class RunSession;
class Selection;
struct RunInfo;

class RecordingActions : public QObject {
  Q_OBJECT

 public:
  RecordingActions(RunSession* session, Selection* selection, Replay* replay, Messages* messages);

  void addActionsTo(QMenu* menu);

 private:
  std::int64_t stepsUpToCursor() const;
  void continueTraining();
  void askToReproduce();
  void reproduce(const RunInfo& first, const std::shared_ptr<const History>& history);

  RunSession* session_;
  Selection* selection_;
  Replay* replay_;
  Messages* messages_;
};

}  // namespace moescope
