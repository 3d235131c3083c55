// Dialogs of File > Open: files, the runs of a folder, and the texts for a checkpoint.
#pragma once

#include <QDialog>
#include <QDir>
#include <QFileDialog>
#include <QStringList>
#include <thread>
#include <vector>

#include "app/session/checkpoint_job.h"
#include "core/logs/runs_in_folder.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QListWidget;
class QPlainTextEdit;
class QPushButton;
class QTreeWidget;

namespace moescope {

// Asks in a table which runs and checkpoints of a folder to open. The runs come first, the newest on top, then the
// checkpoints; the first row is selected. The dialog also offers to train on the folder as text.
class FolderRunsDialog : public QDialog {
  Q_OBJECT

 public:
  FolderRunsDialog(const QString& folder, const std::vector<RunFile>& runs, const std::vector<CheckpointFolder>& models,
                   QWidget* parent);

 signals:
  void chosen(QStringList paths);  // paths of runs, or of one or two checkpoints
  void textWanted();

 private:
  void addRow(const QString& path, const QString& kind, double bytes, const QDateTime& changed);
  QStringList checked() const;
  void showChecked();

  QDir folder_;
  QTreeWidget* table_;
  QLabel* note_;
  QPushButton* open_;
};

// Asks for files or a folder, and whether new steps in them are followed.
class OpenDialog : public QFileDialog {
  Q_OBJECT

 public:
  // `kind`: beginning of the name of the filter that is chosen first; empty: all that can be opened. The dialog deletes
  // itself when closed.
  OpenDialog(const QString& kind, QWidget* parent);
  QCheckBox* follow() const { return follow_; }

 signals:
  void chosen(QStringList paths, bool follow);

 private:
  QCheckBox* follow_;
};

// Asks which texts to run through the model of a checkpoint. Shows beforehand how large the model is and how long a run
// takes. Also offers to set up a training from the checkpoint.
class CheckpointDialog : public QDialog {
  Q_OBJECT

 public:
  // `has_log`: a log of the training is in the folder of the weights and can be opened instead.
  CheckpointDialog(const QString& folder, bool has_log, QWidget* parent);
  void addFiles(const QStringList& paths);
  // Offers an open checkpoint as the reference, together with the texts that it was run on.
  void offerReference(const CheckpointTexts& open);
  void setReference(const QString& folder);  // selects another checkpoint, which becomes run A on the same texts

 signals:
  void chosen(CheckpointTexts texts);
  void trainingWanted();  // requests the set-up of a training that starts from these weights
  void tensorsWanted();
  void logWanted();

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  QWidget* makeFiles();
  void describe();
  void enableRun();
  void followReference();
  CheckpointTexts texts() const;

  QString folder_;
  QLabel* facts_;
  QPlainTextEdit* prompt_;
  QListWidget* files_;
  QComboBox* reference_;
  CheckpointTexts open_;  // the checkpoint of offerReference()
  QPushButton* run_;
  bool readable_ = false;
  std::jthread reader_;  // reads the model
};

}  // namespace moescope
