// Asks in a table which runs and checkpoints of a folder to open. The runs come first, the newest on top, then the
// checkpoints; the first row is selected. The dialog also offers to train on the folder as text.
#pragma once

#include <QDialog>
#include <QDir>
#include <QStringList>
#include <vector>

#include "app/session/checkpoint_job.h"
#include "core/logs/runs_in_folder.h"

class QLabel;
class QPushButton;
class QTreeWidget;

namespace moescope {

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

}  // namespace moescope
