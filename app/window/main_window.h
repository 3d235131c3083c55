// The window: arranges bars, docks, workspaces and menus around one session and one selection. The actions
// (app/actions, app/lessons, app/export) implement what can be done.
#pragma once

#include <QElapsedTimer>
#include <QMainWindow>
#include <QUndoStack>

#include "app/look/messages.h"
#include "app/session/replay.h"
#include "app/session/run_session.h"
#include "app/window/frame_clock.h"
#include "widgets/overview/findings_watch.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

namespace moescope {

class ActionsDock;
class CheckpointActions;
class CompareActions;
class ExportActions;
class FileActions;
class FirstSteps;
class LessonActions;
class LiveSettings;
class NotesDock;
class NoticeBar;
class OutcomesView;
class ProjectorView;
class QueueActions;
class RecordingActions;
class RouterActions;
class RunControl;
class RunCosts;
class SetupDrawer;
class SetupForm;
class SourceStatus;
class AccountActions;
class StatusLine;
class WindowBar;
class WindowLayout;
class WorkspaceTabs;

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  // `remembers`: whether layout and size are stored between sessions. `about`: facts about this program and machine for
  // Help > About, as rich text.
  explicit MainWindow(bool remembers = true, const QStringList& about = {});

  RunSession* session() { return &session_; }
  Selection* selection() { return &selection_; }
  FrameClock* frameClock() { return &clock_; }
  WorkspaceTabs* workspaces() const { return workspaces_; }
  RunControl* runControl() { return control_; }
  FileActions* files() { return files_; }
  const FindingsWatch* findings() const { return &findings_; }
  ExportActions* exports() { return exports_; }
  LessonActions* lessons() { return lessons_; }
  FirstSteps* firstSteps() { return first_steps_; }
  LiveSettings* liveSettings() { return settings_; }
  ProjectorView* projector() { return projector_; }
  void end();  // ends all training, reading and writing, for an exit that skips the window's destructor

 signals:
  void failed(QString message);  // emitted after an error was shown
  void pictureMoved();           // emitted when a second step is shown for the first time

 protected:
  void closeEvent(QCloseEvent* event) override;
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void buildWorkspaces();
  void buildDocks();
  void buildActions();
  void buildLessons();
  void buildMenus(const QStringList& about);
  void buildMenuButton(const QList<QAction*>& first);
  void buildFileMenu();
  void buildEditMenu();
  void buildRunMenu();
  void buildActionsMenu();
  void connectSession();
  void connectForm();
  void connectPanels();
  void connectClock();

  void takeRuns();            // passes the opened runs to the selection
  void showLayerOfVerdict();  // selects the layer of an opened file that the verdict names, once it is known
  void showFullestLayer();
  void showOpened();  // updates the window once all parts have the new runs
  void showGrowth();
  void showAddedOrRemovedRuns();
  void showSettings();
  void showFindings();
  void listFindings();
  void onTick();
  void showTimelineMenu(QPoint global, qint64 step);

  RunSession session_;
  Selection selection_;
  FrameClock clock_;
  QUndoStack undo_;
  Replay replay_;
  ComparedRuns compared_;
  FindingsWatch findings_;
  Messages* messages_;

  WindowBar* bar_;
  StatusLine* status_;
  NoticeBar* notice_;  // notice above the workspaces
  WorkspaceTabs* workspaces_;
  SetupForm* form_;
  SetupDrawer* drawer_;
  ActionsDock* actions_dock_;
  NotesDock* notes_;
  OutcomesView* outcomes_;

  WindowLayout* layout_;
  ProjectorView* projector_;
  LiveSettings* settings_;
  RunControl* control_;
  FileActions* files_;
  SourceStatus* source_status_;
  AccountActions* accounts_;
  CompareActions* comparison_;
  QueueActions* candidates_;
  CheckpointActions* checkpoints_;
  RecordingActions* recordings_;
  RouterActions* router_;
  ExportActions* exports_;
  LessonActions* lessons_;
  FirstSteps* first_steps_;
  RunCosts* costs_;

  QElapsedTimer since_status_;
  int shown_run_ = 0;      // place of the run whose settings the bars show
  int opened_layer_ = -1;  // layer selected when a file was opened; -1: the verdict or the user has chosen another
  int first_layer_ = -1;   // the same, or that of the verdict
  int shown_layer_ = -1;   // the same, or that of All-to-all; -1: Microscaling or the user has chosen another
  const bool remembers_;
  bool picture_moved_ = false;
};

}  // namespace moescope
