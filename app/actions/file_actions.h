// Opens files of every kind: dropped on the window, chosen in a dialog, named on the command line, or recent ones.
// Saves the settings of a run to a file.
#pragma once

#include <QString>
#include <QStringList>
#include <optional>

#include "app/actions/actions.h"
#include "app/session/checkpoint_job.h"
#include "core/config/setup_link.h"

namespace moescope {

class RunControl;
class SetupForm;

// Returns the settings of the open runs and the view; nullopt if the settings are not known. For runs in training these
// are the present settings, for a recording the initial ones.
std::optional<SharedSetup> sharedSetup(const RunSession& session, const Selection& selection,
                                       const WorkspaceTabs& workspaces);

// Copies the set-up of the open runs as a short text (core/config/setup_link.h), and opens such texts.
class SetupLinks : public Actions {
  Q_OBJECT

 public:
  SetupLinks(const Context& context, RunControl* control);

  void addActionsTo(QMenu* menu);
  // Trains the runs of the link up to its step. Shows a message if the link cannot be read.
  void open(const QString& link);

 private:
  void copy();
  void paste();
  void showOpened();  // shows the workspace, run, layer, expert and step of the link

  RunControl* control_;
  std::optional<SharedSetup> opening_setup_;  // the set-up whose runs are being opened
  bool began_ = false;                        // whether RunSession began to open runs since open() was called
};

class FileActions : public Actions {
  Q_OBJECT

 public:
  FileActions(const Context& context, RunControl* control, SetupForm* form);

  void addOpenActionTo(QMenu* menu);
  void addSaveActionsTo(QMenu* menu);  // adds the menu of recent files, too
  QMenu* recentMenu() const { return recent_; }

  // Opens files by their kind (core/logs/file_kind.h). Several runs become run A, B, ... Two checkpoints are run on the
  // same texts, the first as run A. For a folder with runs, asks which to open; for text of unknown kind, asks whether
  // to train on it. Also opens a single set-up link.
  void open(const QStringList& paths);
  void openDropped(const QStringList& paths);  // asks whether files with runs are opened beside the open logs
  void openRecent(const QString& path);  // opens an entry of the list of recent files, and removes it from the list if
                                         // the file is gone
  void askOpen(const QString& kind = {});  // `kind`: beginning of a filter's name in the dialog; empty: all files
  void askOpenCheckpoint();                // asks for a folder
  void askAddLog();                        // asks for logs to open beside the open ones
  void openSample(const QString& name);    // opens a log of assets/samples
  void askOpenConfig();                    // asks for a file of settings and loads it into the set-up form

 signals:
  void lessonOpened(QString path);
  void setupOpened(QString link);  // core/config/setup_link.h
  void queueOpened(QString path);
  void formWanted();                    // the set-up form was filled and should be shown
  void askedWhichRuns(QString folder);  // emitted when the user is asked which runs or checkpoints to open
  void askedToTrainOn(QString path);    // emitted when the user is asked whether to train on this text

 private:
  void openSnapshot(const QStringList& paths);
  void openOther(const QString& path);
  void add(const QStringList& paths, bool follow);  // opens files beside the open logs
  void askWhichRun(const QString& path, const QStringList& names);
  void trainFrom(const QString& checkpoint);
  std::optional<CheckpointTexts> openCheckpoint() const;
  void askCheckpointTexts(const QString& folder, const QString& reference = {});
  void runTexts(const CheckpointTexts& texts);
  bool offerRuns(const QString& path);   // returns false if the folder holds neither runs nor checkpoints
  void askTrainOn(const QString& path);  // asks whether to train on a file or folder that may be text
  void trainOn(const QString& path);
  void openTensors(const QString& path);
  void startConfig(const QString& path);
  bool loadConfigIntoForm(const QString& path);  // returns false after showing why the file was refused
  void askSaveConfig();
  void fillRecentFiles(QMenu* menu);

  QMenu* recent_;
  RunControl* control_;
  SetupForm* form_;
};

}  // namespace moescope
