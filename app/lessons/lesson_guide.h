// Guides through a lesson: arranges the window, performs tasks on request, evaluates checks on the live histories,
// remembers predictions, and restores the user's own layout at the end.
#pragma once

#include <QObject>
#include <QSet>
#include <QTimer>
#include <QVariantMap>
#include <optional>
#include <vector>

#include "app/lessons/lesson_pane.h"
#include "core/lessons/lesson.h"
#include "core/lessons/lesson_figures.h"

class QDockWidget;

namespace moescope {

class LessonHighlight;
class MainWindow;
class Workspace;

class LessonGuide : public QObject {
  Q_OBJECT

 public:
  LessonGuide(MainWindow* window, LessonPane* pane);
  ~LessonGuide() override;

  // Takes over the window with the lesson's first step, its runs paused at step 0, without asking.
  void start(const Lesson& lesson, int number, int lessons);  // number from 0, -1: not a built-in one
  void leave();
  bool active() const { return active_; }
  const Lesson& lesson() const { return lesson_; }
  int step() const { return step_; }
  // Whether the lesson's runs are open, so that another lesson may replace them without asking.
  bool runsAreOurs() const;
  // Panels and workspaces that the lesson names but the window does not have; empty: none.
  static QStringList unknownPanels(const Lesson& lesson, const QList<Workspace*>& workspaces);

  int rightPredictions() const;
  int predictions() const;

 signals:
  void left();
  void finished(QString lesson, int right, int asked);
  void nextLessonRequested();

 public slots:
  void next();
  void back();
  void reset();

 private:
  struct StepState {
    std::optional<int> choice;  // -1: skipped
    QString number;
    double value = 0;
    std::vector<bool> done;
    bool revealed = false;
    std::optional<bool> right;
    bool predicted() const { return choice || !number.isEmpty(); }
  };

  const LessonStep& now() const { return lesson_.steps[static_cast<std::size_t>(step_)]; }
  StepState& state() { return states_[static_cast<std::size_t>(step_)]; }
  void begin();
  void showStep();
  void showEnd();
  void arrange();
  void highlight();
  void clearHighlights();
  void openTensors();
  void perform(int task);
  bool done(const LessonTask& task) const;
  std::vector<int> places(const LessonTask& task) const;  // of the runs that a `set` changes
  bool alike(const std::vector<RunConfig>& configs) const;
  void look();
  void showTasks();
  void showReveal();
  bool allHold() const;
  bool tasksDone();
  QString verdict(const StepState& state) const;

  MainWindow* window_;
  LessonPane* pane_;
  Lesson lesson_;
  int number_ = -1, lessons_ = 0;
  int step_ = 0;
  bool active_ = false, at_end_ = false, opening_ours_ = false, ours_open_ = false;
  LessonReader reader_{{}};
  std::vector<StepState> states_;
  QString arranged_;  // workspace and panels on screen
  QList<LessonHighlight*> highlights_;
  QTimer timer_;
};

}  // namespace moescope
