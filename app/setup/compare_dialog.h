// Chooses the one setting in which a twin differs from run A, or from a run's checkpoint.
#pragma once

#include <QDialog>
#include <functional>
#include <optional>

#include "core/config/run_config.h"

class QComboBox;
class QLabel;
class QPushButton;
class QVBoxLayout;

namespace moescope {

class FieldEditor;

class CompareDialog : public QDialog {
  Q_OBJECT

 public:
  // With `from`, the step of a checkpoint, the twin continues from there: it can differ in live settings only, or in
  // none.
  CompareDialog(const RunConfig& first, const QString& key, QWidget* parent = nullptr,
                std::optional<qint64> from = std::nullopt);

  // What the twin will cost, in words; shown under the choice.
  void setCost(std::function<QString(const RunConfig&)> text);

  // Settings that twins may differ in: those of [data] are the batches, which all runs share.
  static bool comparable(const ConfigField& field);

 signals:
  void twinRequested(moescope::RunConfig twin);

 private:
  void onKeyChosen();
  void check();
  RunConfig twin() const;

  RunConfig first_;
  std::optional<qint64> from_;
  QComboBox* keys_;
  QVBoxLayout* place_;
  FieldEditor* editor_ = nullptr;
  QLabel *now_, *problem_, *cost_;
  std::function<QString(const RunConfig&)> cost_of_;
  QPushButton* ok_;
};

}  // namespace moescope
