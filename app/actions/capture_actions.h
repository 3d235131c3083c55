// From a cell of the quantization-error matrix to the tensor behind it: captures the operand from the run in training,
// without waiting for it, and shows it in the workspace Microscaling. Operands of steps that are over, and of
// recordings, are computed again by a copy of the run.
#pragma once

#include <QObject>
#include <QTimer>
#include <memory>

#include "core/training/recompute.h"
#include "widgets/selection/selection.h"

namespace moescope {

class Messages;
class RunSession;
class TensorLab;
class WorkspaceTabs;

class CaptureActions : public QObject {
  Q_OBJECT

 public:
  CaptureActions(RunSession* session, Selection* selection, WorkspaceTabs* workspaces, Messages* messages);

  // An operand of the active run; `step`: of the matrix from which it was chosen.
  void open(const OperandPlace& place, std::int64_t step);

 private:
  void onOpened();
  void again();
  void cancel();
  void recompute(std::int64_t step);  // the same operand
  void askAndSave();
  void look();
  void lookAtRecompute();
  void startRecompute(std::int64_t step);
  const History& shownRun() const;
  RecomputePlan planOf(std::int64_t step) const;

  RunSession* session_;
  Selection* selection_;
  WorkspaceTabs* workspaces_;
  Messages* messages_;
  TensorLab* tensor_lab_;
  QTimer timer_;
  std::shared_ptr<const Capture> capture_;
  std::unique_ptr<Recomputation> recompute_;
  OperandPlace place_;
  std::int64_t wanted_step_ = -1;
};

}  // namespace moescope
