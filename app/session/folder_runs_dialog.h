// Asks which runs of a folder to open, in a table with the newest first and selected. Also offers to train on the
// folder as text.
#pragma once

#include <QDialog>
#include <QStringList>
#include <vector>

#include "core/logs/runs_in_folder.h"

class QLabel;
class QPushButton;
class QTreeWidget;

namespace moescope {

class FolderRunsDialog : public QDialog {
  Q_OBJECT

 public:
  FolderRunsDialog(const QString& folder, const std::vector<RunFile>& runs, QWidget* parent);

 signals:
  void chosen(QStringList paths);  // one or more paths
  void textWanted();

 private:
  QStringList checked() const;
  void showChecked();

  QTreeWidget* table_;
  QLabel* note_;
  QPushButton* open_;
};

}  // namespace moescope
