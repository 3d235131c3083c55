// Guides through a lesson: arranges the window, performs tasks on request, evaluates checks on the live histories,
// remembers predictions, and restores the user's layout at the end.
#pragma once

#include <QObject>
#include <QTimer>
#include <memory>
#include <optional>
#include <vector>

#include "app/lessons/lesson_pane.h"
#include "app/lessons/lesson_panels.h"
#include "core/lessons/lesson.h"
#include "core/lessons/lesson_figures.h"
#include "core/recording/history/history.h"

namespace moescope {

class CompareActions;
class LiveSettings;
class RunControl;
class RunSession;
class TensorLab;
class WorkspaceTabs;

// Performs the tasks of a lesson. The state of the runs decides whether a task is done, so that work by hand counts.
// Only runs that the lesson started are judged.
class LessonTasks : public QObject {
  Q_OBJECT

 public:
  LessonTasks(RunSession* session, RunControl* control, LiveSettings* settings, CompareActions* comparison,
              TensorLab* tensor_lab, QObject* parent);

  // Starts the lesson's runs paused at step 0, in place of the open ones.
  void startRuns(const std::vector<RunConfig>& configs);
  // Lets the training pause at the end of the next task, also if the user starts it in the bar.
  void endTrainingAt(std::int64_t step);
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
  std::int64_t end_ = 0;  // the end that was set last, so that one that the user sets stays
  std::vector<std::shared_ptr<const History>> ours_;
};

class LessonGuide : public QObject {
  Q_OBJECT

 public:
  LessonGuide(RunSession* session, Selection* selection, RunControl* control, LiveSettings* settings,
              CompareActions* comparison, WorkspaceTabs* workspaces, LessonPane* pane);

  // Shows the lesson in the window, with its runs paused at step 0, without asking. Performs the tasks of the steps
  // before `step`. `number` is from 0; -1: not a built-in lesson.
  void start(const Lesson& lesson, int number, int lessons, int step);
  void leave();
  bool active() const { return active_; }
  const Lesson& lesson() const { return lesson_; }
  // Whether the open runs belong to a lesson, so that another lesson may replace them without asking.
  bool runsAreOurs() const { return tasks_.runsAreOurs(); }
  // Performs the next action of the present step without a prediction, for pictures. Returns true once all tasks of the
  // step are done and its explanation is open.
  bool passStep();

 signals:
  void lessonLeft();
  void stepShown(QString lesson, int step);                 // from 0
  void finished(QString lesson, int right, int questions);  // the last explanation is open, or the end is shown
  void nextLessonRequested();

 public slots:
  void next();
  void back();
  void reset();  // restarts the whole lesson with new runs

 private:
  struct StepState {
    std::optional<int> choice;  // predicted choice; -1: skipped
    QString number;
    double value = 0;
    std::vector<bool> done;
    std::vector<std::shared_ptr<const History>> histories;  // runs of the step, kept when other runs are opened
    std::optional<std::int64_t> trained_before;             // steps of training when the step was entered
    bool trained_early = false;                             // before the prediction, which then does not count
    bool is_final = false;                                  // the prediction: the result has been seen
    bool revealed = false;                                  // the following three are shown as they were then
    QList<LessonFigureRow> figures;
    QString verdict, explanation;
    std::optional<bool> right;
    bool predicted() const { return choice || !number.isEmpty(); }
  };

  const LessonStep& lessonStep() const { return lesson_.steps[step_]; }
  StepState& state() { return states_[step_]; }
  const StepState& state() const { return states_[step_]; }
  void begin(int step = 0);
  LessonPane::Page newPage() const;  // with the head of the lesson
  void showStep();
  void showEnd();
  std::pair<int, int> score() const;  // right answers and judged questions
  QString faultLinks() const;
  void predict(std::optional<int> choice, const QString& number = {}, double value = 0);
  void arrange();
  void showRuns(bool are_shown);
  bool showsOtherRuns() const;  // true if the open runs are those of another step
  QString cover() const;
  void openTensors();
  void showTensorOf(const LessonStep& step);
  void describeTensor();
  // Number of the newest step at or before `step` that starts runs; kLessonsRuns: the runs with which the lesson began.
  // A step is about these runs.
  int startOf(int step) const;
  bool startsRuns(int step) const;  // true if a task of this step starts runs
  bool runsAreOpen() const;         // true if the runs of the present step are open
  void lookAtTask(int task);        // checks whether a task is done
  void showWhatIsMissing();
  void perform(int task);
  void look();
  void showTasks();
  LessonTaskState taskState(int task, bool before);
  QList<LessonFigureRow> figures();
  LessonFigureRow figureRow(const LessonCheck& check);
  bool showsLiveFigures();  // true if the last task is a training that is not over
  void noticeEarlyTraining();
  bool resultIsSeen();
  void showNext();
  void explain();  // opens the explanation
  void judgePrediction();
  bool predicted() const { return !lessonStep().prediction || state().predicted(); }
  bool tasksDone();
  QString opensWhen();  // returns when the explanation opens
  QString verdict(const StepState& state) const;

  RunSession* session_;
  Selection* selection_;
  RunControl* control_;
  TensorLab* tensor_lab_;
  LessonPane* pane_;
  LessonTasks tasks_;
  LessonPanels panels_;
  Lesson lesson_;
  int number_ = -1, lessons_ = 0;
  int step_ = 0;
  int next_stop_ = 0;  // the steps before it are passed without the user
  bool active_ = false, at_end_ = false;
  bool entering_ = false;                   // the lesson's runs are being opened
  bool entered_ = false;                    // the runs are open, but the window does not show them yet
  int opening_start_ = 0, open_start_ = 0;  // startOf() of the lesson's runs that are being opened, and that are open
  QStringList opened_tensors_;
  LessonReader reader_{{}};
  std::vector<StepState> states_;
  QTimer timer_;
};

}  // namespace moescope
