// Asks which runs of a folder to open: a table of them, the newest first and chosen. A folder of training logs may as
// well be text to train on, which is offered beside it.
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
  void chosen(QStringList paths);  // at least one
  void textWanted();

 private:
  QStringList checked() const;
  void showChecked();

  QTreeWidget* table_;
  QLabel* note_;
  QPushButton* open_;
};

}  // namespace moescope
