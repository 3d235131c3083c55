// Guided lessons in the window: their dock, menu and keys, the question before a run is replaced, and the scores.
#pragma once

#include <QObject>
#include <QString>

class QDockWidget;
class QMainWindow;
class QMenu;
class QMenuBar;

namespace moescope {

class LessonGuide;
class LessonPane;
class Messages;
class RunSession;
class WindowLayout;
class WorkspaceTabs;

class LessonActions : public QObject {
  Q_OBJECT

 public:
  // Docks the pane at the right of the window. `keeps_scores`: the scores are stored between sessions.
  LessonActions(QMainWindow* window, LessonGuide* guide, LessonPane* pane, RunSession* session,
                WorkspaceTabs* workspaces, WindowLayout* layout, Messages* messages, bool keeps_scores);

  void addMenuTo(QMenuBar* bar);
  enum class Ask { before_replacing, never };
  // Starts a built-in lesson by name or number, or a file. Asks before it replaces a run of the user.
  void start(const QString& name_or_path, Ask ask = Ask::before_replacing);
  void leave();
  bool active() const;
  LessonGuide* guide() const { return guide_; }

 signals:
  void started();
  void goOnRequested();  // the user keeps the run, which was paused for the question

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
  RunSession* session_;
  WorkspaceTabs* workspaces_;
  WindowLayout* layout_;
  Messages* messages_;
  QDockWidget* dock_;
  QMenu* menu_ = nullptr;
  const bool keeps_scores_;
};

}  // namespace moescope
