// Run > Matrix units: which units of the processor multiply BF16 and quantized operands from the next start on.
#pragma once

#include <QObject>
#include <vector>

#include "app/session/unit_setting.h"
#include "core/numerics/matrix_units.h"

class QAction;
class QMenu;

namespace moescope {

class Messages;
class RunSession;

class UnitActions : public QObject {
  Q_OBJECT

 public:
  // `choices`: of this processor, matrix_unit_choices().
  UnitActions(RunSession* session, Messages* messages, UnitsOfStart start, std::vector<MatrixUnitChoice> choices);

  void addMenuTo(QMenu* menu);

 private:
  QAction* addChoice(QMenu* menu, const MatrixUnitChoice& choice);
  void choose(const MatrixUnitChoice& choice);
  void offerRestart(const MatrixUnitChoice& choice);
  void restart();

  RunSession* session_;
  Messages* messages_;
  UnitsOfStart start_;
  std::vector<MatrixUnitChoice> choices_;
};

}  // namespace moescope
