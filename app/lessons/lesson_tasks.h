// Performs the tasks of a lesson. The state of the runs decides whether a task is done, so that work by hand counts.
// Only runs that the lesson started are judged.
#pragma once

#include <QObject>
#include <memory>
#include <vector>

#include "core/lessons/lesson.h"
#include "core/recording/history/history.h"

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

  // Starts the lesson's runs paused at step 0, in place of the open ones.
  void startRuns(const std::vector<RunConfig>& configs);
  void endTraining();        // pauses the runs after the lesson and removes the end of their training
  bool runsAreOurs() const;  // whether the open runs were started by a lesson and none was closed
  void perform(const LessonTask& task);
  bool done(const LessonTask& task) const;       // true if a task is done; false for a task `start`
  bool stillDone(const LessonTask& task) const;  // true unless a run was rewound to a step before the end of the task

 private:
  std::vector<int> places(const LessonTask& task) const;  // places of the runs that a task `set` changes
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
