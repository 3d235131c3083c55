// Guides through a lesson: arranges the window, performs tasks on request, evaluates checks on the live histories,
// remembers predictions, and restores the user's own layout at the end.
#pragma once

#include <QObject>
#include <QTimer>
#include <optional>
#include <vector>

#include "app/lessons/lesson_pane.h"
#include "app/lessons/lesson_panels.h"
#include "app/lessons/lesson_tasks.h"
#include "core/lessons/lesson.h"
#include "core/lessons/lesson_figures.h"

namespace moescope {

class CompareActions;
class LiveSettings;
class RunControl;
class RunSession;
class Selection;
class TensorLab;
class WorkspaceTabs;

class LessonGuide : public QObject {
  Q_OBJECT

 public:
  LessonGuide(RunSession* session, Selection* selection, RunControl* control, LiveSettings* settings,
              CompareActions* comparison, WorkspaceTabs* workspaces, LessonPane* pane);

  // Takes over the window with the lesson's first step, its runs paused at step 0, without asking.
  void start(const Lesson& lesson, int number, int lessons);  // number from 0, -1: not a built-in one
  void leave();
  bool active() const { return active_; }
  const Lesson& lesson() const { return lesson_; }
  // A lesson's runs are what is open, so that another lesson may replace them without asking.
  bool runsAreOurs() const { return tasks_.runsAreOurs(); }
  // Goes on in the present step as a person does who predicts nothing, for pictures; true once its explanation is open.
  bool passStep();

 signals:
  void left();
  void finished(QString lesson, int right, int asked);
  void nextLessonRequested();

 public slots:
  void next();
  void back();
  void reset();      // the whole lesson, with new runs
  void resetStep();  // forgets what was predicted and done in this step, and takes its runs back to its beginning

 private:
  int rightPredictions() const;
  int predictions() const;
  struct StepState {
    std::optional<int> choice;  // -1: skipped
    QString number;
    double value = 0;
    std::vector<bool> done;
    std::vector<std::shared_ptr<const History>> histories;  // of the runs that it is about, also once others are open
    bool revealed = false;
    std::optional<bool> right;
    std::optional<std::int64_t> began_at;  // the runs' step when the page was opened first; a checkpoint is kept there
    bool predicted() const { return choice || !number.isEmpty(); }
  };

  const LessonStep& now() const { return lesson_.steps[static_cast<std::size_t>(step_)]; }
  StepState& state() { return states_[static_cast<std::size_t>(step_)]; }
  const StepState& state() const { return states_[static_cast<std::size_t>(step_)]; }
  void begin();
  void showStep();
  void showEnd();
  void predict(const StepState& predicted);
  void keepBeginning();  // a checkpoint, for resetStep()
  void arrange();
  void openTensors();
  const LessonTask* firstShown() const;  // that shows a tensor; nullptr: none does
  // The runs that a step is about are those of the newest start at or before it: the number of its step, or
  // kLessonsRuns, those that the lesson began with.
  int startOf(int step) const;
  bool startsRuns(int step) const;  // by one of its tasks
  bool runsAreOpen() const;         // those that the present step is about
  void lookAtTask(int task);        // whether it is done
  void showWhatIsMissing();
  void perform(int task);
  void look();
  void showTasks();
  LessonTaskState taskState(int task, bool before);
  void showFigures();
  LessonFigureRow figureRow(const LessonCheck& check);
  bool showsLiveFigures();  // the last task is a training and goes on
  void showNext();
  void showReveal();
  void judgePrediction();
  bool predicted() const;
  bool allHold() const;
  bool tasksDone();
  QString opensWhen();  // the explanation
  QString verdict(const StepState& state) const;

  RunSession* session_;
  WorkspaceTabs* workspaces_;
  TensorLab* tensor_lab_;
  LessonPane* pane_;
  LessonTasks tasks_;
  LessonPanels panels_;
  Lesson lesson_;
  int number_ = -1, lessons_ = 0;
  int step_ = 0;
  bool active_ = false, at_end_ = false;
  bool entering_ = false;                   // its runs are being opened
  bool entered_ = false;                    // they were, and the window has not taken them in yet
  int opening_start_ = 0, open_start_ = 0;  // as of startOf(): of the lesson's runs that are being opened, or open
  QStringList opened_tensors_;
  LessonReader reader_{{}};
  std::vector<StepState> states_;
  QTimer timer_;
};

}  // namespace moescope
