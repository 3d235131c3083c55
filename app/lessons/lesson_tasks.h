// What the tasks of a lesson ask for: done on request, and judged by what is, so that what a person does by hand counts
// as well. Only runs that the lesson has started are judged: whatever else is open has other figures.
#pragma once

#include <QObject>
#include <memory>
#include <vector>

#include "core/history/history.h"
#include "core/lessons/lesson.h"

namespace moescope {

class CompareActions;
class LiveSettings;
class RunControl;
class RunSession;
class TensorLab;

class LessonTasks : public QObject {
  Q_OBJECT

 public:
  LessonTasks(RunSession* session, RunControl* control, LiveSettings* settings, CompareActions* comparison,
              TensorLab* tensor_lab, QObject* parent);

  void startRuns(const std::vector<RunConfig>& configs);  // in place of what is open, paused at step 0
  void rest();  // pauses a run that a lesson has left behind, and forgets the step up to which it was to train
  bool runsAreOurs() const;  // what is open was started by a lesson, and none of it was closed
  void perform(const LessonTask& task);
  bool done(const LessonTask& task) const;       // of all kinds but `start`
  bool stillDone(const LessonTask& task) const;  // nobody has gone back to a step before its end

 private:
  std::vector<int> places(const LessonTask& task) const;  // of the runs that a `set` is about
  void noticeClosedRuns();
  bool reached(std::int64_t step) const;

  RunSession* session_;
  RunControl* control_;
  LiveSettings* settings_;
  CompareActions* comparison_;
  TensorLab* tensor_lab_;
  bool starting_ours_ = false, opening_ours_ = false, ours_open_ = false;
  std::vector<std::shared_ptr<const History>> ours_;
};

}  // namespace moescope
