// The dialog of File > Open: asks for files or a folder, and whether new steps in them are followed.
#pragma once

#include <QFileDialog>

class QCheckBox;

namespace moescope {

class OpenDialog : public QFileDialog {
  Q_OBJECT

 public:
  explicit OpenDialog(QWidget* parent);  // deletes itself when closed
  QCheckBox* follow() const { return follow_; }

 signals:
  void chosen(QStringList paths, bool follow);

 private:
  QCheckBox* follow_;
};

}  // namespace moescope
