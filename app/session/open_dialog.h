// The dialog of File > Open: asks for files or a folder, and whether new steps in them are followed.
#pragma once

#include <QFileDialog>

class QCheckBox;

namespace moescope {

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

}  // namespace moescope
