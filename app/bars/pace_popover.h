// A popover for the speed of a run and for the step before which the run pauses.
#pragma once

#include <optional>

#include "app/bars/popover.h"

class QComboBox;
class QLabel;
class QLineEdit;

namespace moescope {

class PacePopover : public Popover {
  Q_OBJECT

 public:
  explicit PacePopover(QWidget* parent = nullptr);

  void showUntil(std::optional<qint64> step);
  void setTraining(bool training);  // false: a replay, which has no field for the end

 signals:
  void speedRequested(double steps_per_s);          // 0: as fast as possible
  void untilRequested(std::optional<qint64> step);  // nullopt: no end

 private:
  void onUntilEdited();

  QComboBox* speed_;
  QLineEdit* until_;
  QLabel *until_name_, *words_;
};

}  // namespace moescope
