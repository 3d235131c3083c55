// Asks on which hosts a training shall run, and shows the command that starts it.
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
  // `folder`: where config and recording shall lie, until the person names another.
  HostsDialog(const QString& folder, qint64 steps, QWidget* parent);

 signals:
  void planned(moescope::HostPlan plan);  // config and recording are in the folder, by names of their own

 private:
  HostPlan plan() const;  // throws std::runtime_error: what is wrong
  void look();            // at what was typed

  QPlainTextEdit* hosts_;
  QLineEdit* program_;
  QLineEdit* folder_;
  QSpinBox* steps_;
  QSpinBox* port_;
  QLabel* problem_;
  QPlainTextEdit* command_;
  QPushButton* start_;
};

}  // namespace moescope
