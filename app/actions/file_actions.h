// Files of every kind into the window: dropped, chosen, named on the command line, or opened again; and the settings of
// a run into a file.
#pragma once

#include <QString>
#include <QStringList>

#include "app/actions/actions.h"
#include "app/session/checkpoint_job.h"

class QMenu;

namespace moescope {

class RunControl;
class SetupForm;

class FileActions : public Actions {
  Q_OBJECT

 public:
  FileActions(const Context& context, RunControl* control, SetupForm* form);

  void addOpenActionsTo(QMenu* menu);
  void addSaveActionsTo(QMenu* menu);
  void addRecentFilesTo(QMenu* menu);
  void addSampleTo(QMenu* menu);

  // By what they are (core/logs/file_kind.h); several runs as A, B, ... A folder that holds runs is asked about, and
  // so is what is not known: nothing is trained on unasked. A set-up link alone is opened, too.
  void open(const QStringList& paths);
  void openRecent(const QString& path);  // of the list of recent files, which it leaves if it is no longer there
  // Looks on at a training that serves its frames; without a token it is asked for, or MOESCOPE_TOKEN has it.
  void attach(const QString& address, QString token = {});
  void askOpen();
  void openSamples(const QStringList& names);  // of assets/samples
  void askOpenConfig();                        // into the form

 signals:
  void lessonOpened(QString path);
  void setupOpened(QString link);  // core/config/setup_link.h
  void queueOpened(QString path);
  void formWanted();                       // on the screen: it was filled
  void checkpointOffered(QString folder);  // a person is asked which texts to run through it
  void runsOffered(QString folder);        // a person is asked which of them to open
  void textUnknown(QString path);          // a person is asked whether to train on it

 private:
  void openSnapshot(const QStringList& paths);
  void openOther(const QString& path);
  void askRoutedShape(const QStringList& paths, const QString& why);
  void askWhichRun(const QString& path, const QStringList& names);
  void askCheckpointTexts(const QString& path);
  void runTexts(const CheckpointTexts& texts);
  bool offerRuns(const QString& path);   // false: it is no folder that holds runs
  void askTrainOn(const QString& path);  // a file or folder that may be text
  void trainOn(const QString& path);
  void openTensors(const QString& path);
  void startConfig(const QString& path);
  bool loadConfigIntoForm(const QString& path);  // false: it was refused, and the person told
  void askOpenFolder();
  void askAttach();
  void askOpenTensors();
  void askOpenRecording();
  void askSaveConfig();
  void fillRecentFiles(QMenu* menu);

  RunControl* control_;
  SetupForm* form_;
};

}  // namespace moescope
