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
  // Docks the pane at the right of the window. `keeps_scores`: from one start to the next.
  LessonActions(QMainWindow* window, LessonGuide* guide, LessonPane* pane, RunSession* session,
                WorkspaceTabs* workspaces, WindowLayout* layout, Messages* messages, bool keeps_scores);

  void addMenuTo(QMenuBar* bar);
  enum class Ask { before_replacing, never };
  // A built-in lesson by name or number, or a file; asks before it replaces a run that a person trained.
  void start(const QString& name_or_path, Ask ask = Ask::before_replacing);
  void leave();
  bool active() const;
  LessonGuide* guide() const { return guide_; }

 signals:
  void started();
  void goOnRequested();  // the person keeps the run, which had been paused to ask

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
