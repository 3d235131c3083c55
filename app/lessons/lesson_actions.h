// Guided lessons in the window: their dock, menu and keys, the question before a run is replaced, and the scores.
#pragma once

#include <QString>

#include "app/actions/actions.h"

class QDockWidget;
class QMainWindow;
class QMenu;
class QMenuBar;

namespace moescope {

class LessonGuide;
class LessonPane;
class WindowLayout;

class LessonActions : public Actions {
  Q_OBJECT

 public:
  // Docks the pane at the right of the window. `keeps_scores`: the scores are stored between sessions.
  LessonActions(const Context& context, QMainWindow* window, LessonGuide* guide, LessonPane* pane, WindowLayout* layout,
                bool keeps_scores);

  void addMenuTo(QMenuBar* bar);
  enum class Ask { before_replacing, never };
  // Starts a built-in lesson by name or number, or a file. Asks before it replaces a run of the user.
  void start(const QString& name_or_path, Ask ask = Ask::before_replacing);
  void leave();
  bool active() const;
  LessonGuide* guide() const { return guide_; }

 signals:
  void started();
  void goOnRequested();  // the user kept the run, which was paused for the question

 private:
  void makeDock();
  void fillMenu();
  void begin(const QString& name_or_path);
  void showPane();
  void startNext();
  void giveWindowBack();

  QMainWindow* window_;
  LessonGuide* guide_;
  LessonPane* pane_;
  WindowLayout* layout_;
  QDockWidget* dock_;
  QMenu* menu_ = nullptr;
  const bool keeps_scores_;
};

}  // namespace moescope
