// Asks on which hosts to train, and shows the command that starts the training.
#pragma once

#include <QDialog>

#include "app/session/host_training.h"

class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QPushButton;
class QSpinBox;

namespace moescope {

class HostsDialog : public QDialog {
  Q_OBJECT

 public:
  // `folder`: proposed folder for config and recording.
  HostsDialog(const QString& folder, qint64 steps, QWidget* parent);

 signals:
  void planned(moescope::HostPlan plan);  // config and recording of the plan have new names in the folder

 private:
  HostPlan plan() const;  // throws std::runtime_error with the error in the input
  void look();            // checks the input and shows the command

  QPlainTextEdit* hosts_;
  QLineEdit* program_;
  QLineEdit* folder_;
  QSpinBox* steps_;
  QSpinBox* port_;
  QLabel *problem_, *answer_;
  QPlainTextEdit* command_;
  QPushButton* start_;
};

}  // namespace moescope
