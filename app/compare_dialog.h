// Chooses the one setting in which a twin differs from run A.
#pragma once

#include <QDialog>

#include "core/run_config.h"

class QComboBox;
class QLabel;
class QPushButton;
class QVBoxLayout;

namespace moescope {

class FieldEditor;

class CompareDialog : public QDialog {
  Q_OBJECT

 public:
  CompareDialog(const RunConfig& first, const QString& key, QWidget* parent = nullptr);

  // Settings that twins may differ in: those of [data] are the batches, which all runs share.
  static bool comparable(const ConfigField& field);
  void setKey(const QString& key);
  FieldEditor* editor() const { return editor_; }

 signals:
  void twinRequested(moescope::RunConfig twin);

 private:
  void onKeyChosen();
  void check();
  RunConfig twin() const;

  RunConfig first_;
  QComboBox* keys_;
  QVBoxLayout* place_;
  FieldEditor* editor_ = nullptr;
  QLabel *now_, *problem_;
  QPushButton* ok_;
};

}  // namespace moescope
