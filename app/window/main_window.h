// The window: bars, docks and menus around one session and one selection. It wires; it computes and paints nothing.
#pragma once

#include <QMainWindow>
#include <QPointer>
#include <QProgressDialog>
#include <QUndoStack>

#include "app/look/theme.h"
#include "app/session/run_session.h"
#include "app/window/frame_clock.h"
#include "widgets/overview/findings_watch.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

class QMenu;
class QStackedWidget;
class QTabBar;

namespace moescope {

class ActionsDock;
class AllToAllWorkspace;
class CaptureDesk;
class ClusterWorkspace;
class CompareWorkspace;
class ExpertActions;
class LessonGuide;
class LessonPane;
class LiveBar;
class MicroscalingWorkspace;
class NoticeBar;
class NotesDock;
class Overview;
class Panel;
class Replay;
class RouterWorkspace;
class RunBar;
class SetupForm;
class StatusLine;
class TextWorkspace;
class Workspace;

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  // Without memory neither layout nor size of the last window are taken over, nor this one's kept.
  explicit MainWindow(bool remembers = true);
  ~MainWindow() override;

  enum class Start { running, paused };
  void startRun(const RunConfig& config, Start start = Start::running);
  void startRuns(std::vector<RunConfig> configs, Start start);  // in lock-step, the first is run A
  void setRecorded(bool recorded) { recorded_ = recorded; }     // off: runs stay in memory only
  void setUntil(std::optional<qint64> step);                    // pauses before this step; nothing: no end
  void openFile(const QString& path) { openFiles({path}); }
  void openFiles(const QStringList& paths);  // by what they are (core/files/file_kind.h); several runs as A, B, ...
  void follow(const QStringList& logs) { session_.follow(logs); }
  // Looks on at a training that serves its frames; without a token it is asked for, or MOESCOPE_TOKEN has it.
  void attach(const QString& address, QString token = {});
  void exportTrace(const QString& path);    // of the modelled timeline; throws std::runtime_error
  void rewind(qint64 step);                 // to a kept checkpoint
  void addRun(RunConfig twin);              // beside run A, and shows the comparison
  bool showWorkspace(const QString& name);  // in any case of letters; false: there is none
  // A built-in lesson by name or number, or a file; asks before it replaces a run that a person trained.
  void startLesson(const QString& name_or_path);
  void leaveLesson();
  // What a lesson does to the window.
  void startLessonRuns(const std::vector<RunConfig>& configs);  // paused, in memory only
  void runUntil(qint64 step);
  void changeRun(int place, const QString& key, const ConfigValue& value);  // undoable
  void setAboutFacts(const QStringList& facts) { about_facts_ = facts; }
  void restoreDefaultLayout();
  void rememberLayout();
  void setTheme(Theme theme);

  RunSession* session() { return &session_; }
  Selection* selection() { return &selection_; }
  QUndoStack* undoStack() { return &undo_; }
  FrameClock* frameClock() { return &clock_; }
  SetupForm* setupForm() { return form_; }
  LiveBar* liveBar() { return live_bar_; }
  ActionsDock* actionsDock() { return actions_; }
  NotesDock* notesDock() { return notes_; }
  ExpertActions* expertActions() { return expert_actions_; }
  RunBar* runBar() { return run_bar_; }
  NoticeBar* noticeBar() { return notice_; }
  Overview* overview() { return overview_; }
  RouterWorkspace* routerWorkspace() { return router_; }
  FindingsWatch* findings() { return &findings_; }
  CompareWorkspace* compareWorkspace() { return compare_; }
  const ComparedRuns* comparedRuns() const { return &compared_; }
  MicroscalingWorkspace* microscaling() { return microscaling_; }
  AllToAllWorkspace* allToAllWorkspace() { return all_to_all_; }
  ClusterWorkspace* clusterWorkspace() { return cluster_; }
  TextWorkspace* textWorkspace() { return text_; }
  LessonGuide* lessonGuide() { return guide_; }
  LessonPane* lessonPane() { return lesson_pane_; }
  Workspace* workspace() const;  // on the screen
  QList<Workspace*> workspaces() const;

 signals:
  void failed(QString message);  // after it was shown
  void pictureMoved();           // the first time that a second step is on screen

 protected:
  void closeEvent(QCloseEvent* event) override;
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void buildBars();
  void buildWorkspaces();
  void buildForm();
  void connectRunBar();
  void connectForm();
  void connectSession();
  void connectComparison();
  void connectExpertCard();
  void connectReplay();
  std::int64_t stepsUpToCursor() const;
  void showRecording(const RunConfig* config);  // nullptr: its settings are not known
  void addReplayActions(QMenu* menu);
  void continueRecording();
  void reproduceRecording();
  void reproduce(const RunInfo& first, const std::shared_ptr<const History>& history);
  void connectFindings();
  void showFindings();
  void focusSetting(const QString& key);
  void connectCapture();
  void explainUnderMouse();
  void buildMenus();
  void buildActions();
  void buildActionsMenu();
  void buildFileMenu();
  void buildEditMenu();
  void buildRunMenu();
  void buildViewMenu();
  void buildHelpMenu();
  void fillRecentFiles();

  void buildNotes();
  void addNoteActions(QMenu* menu);
  void addNoteActions(QMenu* menu, qint64 step);

  void buildLessons();
  void buildLessonMenu();
  void fillLessonMenu();
  void beginLesson(const QString& name_or_path);
  void takeLayoutForLesson();
  void giveLayoutBack();

  void onOpeningStarted(const QString& what);
  void onOpened();
  void onFailed(const QString& message);
  void onTick();
  void requestChange(const QString& key, const ConfigValue& value);
  void goOn();
  void pause();
  void stepOnce();
  void resetRun();
  void startPreset(const QString& name);
  void startTogether(const ParsedConfig& parsed);
  bool loadConfigIntoForm(const QString& path);  // false: it was refused, and the person told
  void showConfigEverywhere();
  void showWorkspace(Workspace* workspace);
  void openTensors(const QString& path);
  void openOther(const QString& path);
  void askAttach();
  void onGrowingEnded(const QString& why);
  void openSample();
  void connectCluster();
  void placeExperts(const QString& placement);
  void showPlacement(const RunConfig* live);  // nullptr: a recording
  void askExportTrace();
  void sayWhatWasSkipped();
  void askForTwin(const QString& key);
  void addTwinWith(const QString& key, const ConfigValue& value);  // run A with one setting changed
  void askForBranch(qint64 step);
  void keepCheckpoint();
  std::vector<KeptCheckpoint> keptCheckpoints() const;
  std::optional<qint64> checkpointBefore(qint64 step);  // at the step, before it, else the first there is
  void showCheckpoints();
  void showTimelineMenu(QPoint global, qint64 step);
  void showExpertMenu(Panel* panel, QPoint global);
  void removeRun(int place);
  void measureGradients(int every);
  void onRunsChanged();
  void showComparedRuns();
  void showChips();
  void complain(const QString& message);
  void showReadout(const QString& text);
  QString purposeOfForm() const;
  void pauseBeforeTheDiskIsFull();
  void guarded(const std::function<void()>& action);  // shows what it throws

  void askOpen();
  void askOpenConfig();
  void askOpenTensors();
  void askSaveConfig();
  void askSaveScreenshot();
  void restoreLayout();
  void fitScreen();

  RunSession session_;
  Selection selection_;
  FrameClock clock_;
  QUndoStack undo_;
  RunBar* run_bar_ = nullptr;
  LiveBar* live_bar_ = nullptr;
  SetupForm* form_ = nullptr;
  QDockWidget* form_dock_ = nullptr;
  ComparedRuns compared_;
  FindingsWatch findings_{&selection_, &compared_};
  NoticeBar* notice_ = nullptr;  // over the workspaces
  QStackedWidget* stack_ = nullptr;
  QTabBar* tabs_ = nullptr;
  Overview* overview_ = nullptr;
  RouterWorkspace* router_ = nullptr;
  CompareWorkspace* compare_ = nullptr;
  MicroscalingWorkspace* microscaling_ = nullptr;
  CaptureDesk* capture_desk_ = nullptr;
  TextWorkspace* text_ = nullptr;
  AllToAllWorkspace* all_to_all_ = nullptr;
  ClusterWorkspace* cluster_ = nullptr;
  int shown_run_ = 0;  // whose settings the bars show
  ActionsDock* actions_ = nullptr;
  Replay* replay_ = nullptr;
  NotesDock* notes_ = nullptr;
  ExpertActions* expert_actions_ = nullptr;
  LessonGuide* guide_ = nullptr;
  LessonPane* lesson_pane_ = nullptr;
  QDockWidget* lesson_dock_ = nullptr;
  QMenu* lesson_menu_ = nullptr;
  QVariantMap own_layout_;  // the person's, while a lesson arranges the window
  StatusLine* status_ = nullptr;
  QPointer<QProgressDialog> progress_;
  QMenu* recent_menu_ = nullptr;
  QStringList about_facts_;
  QString readout_;  // the last one in the status bar
  double speed_limit_ = 0;
  std::optional<qint64> until_;
  qint64 pause_at_bytes_ = 0;
  const bool remembers_;
  bool recorded_ = true, run_when_open_ = true;
  bool arranged_ = false, picture_moved_ = false;
  bool growing_ended_ = false;  // of what was followed or attached to
  QElapsedTimer since_status_;
};

}  // namespace moescope
