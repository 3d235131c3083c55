// Opens the tensor behind a cell of the quantization-error matrix: captures the operand from the run in training,
// without waiting for it, and shows it in the workspace Microscaling. Operands of past steps and of recordings are
// recomputed by a copy of the run; a log may have a sample of their blocks.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <memory>
#include <optional>

#include "app/actions/actions.h"
#include "core/model/non_finite.h"
#include "core/training/engine/retrain.h"
#include "widgets/selection/selection.h"

namespace moescope {

class TensorLab;

class CaptureActions : public Actions {
  Q_OBJECT

 public:
  explicit CaptureActions(const Context& context);

  // Shows an operand of the active run. `step`: the step of the matrix when it was clicked.
  void open(const OperandPlace& place, std::int64_t step) {
    bringUp(place, step);
    isSoon() ? offerStep() : captureAgain();
  }
  // Recomputes an operand of the active run at `step` and shows a part of it in the microscope.
  void openElement(const OperandElement& element, std::int64_t step);

 private:
  void onOpened();
  void openFirst();
  bool selectQuantizedRun();
  void followSelection(std::int64_t step);
  void bringUp(const OperandPlace& place, std::int64_t step);
  // True if the panels show the newest step of a run that trains, so that an operand need not be computed again.
  bool capturesNewest() const { return !isAtRest() && selection_->following(); }
  void captureAgain();
  void offerStep();
  void showExampleInFormat();
  bool isAtRest() const;  // no run trains
  bool isSoon() const;    // no run trains, and a copy of the run gets to the wanted step in little time
  void computeIfSoon();
  void setBusy(bool busy);
  bool showSample();  // shows the blocks of the operand that a log has; false: it has none
  void cancel();
  void recompute(std::int64_t step);  // recomputes the operand of open() at `step`
  void askAndSave();
  void look();
  void startRecompute(std::int64_t step);
  const History& shownRun() const { return *session_->histories()[selection_->run()]; }

  TensorLab* tensor_lab_;
  QTimer timer_, soon_;
  QElapsedTimer since_capture_;
  std::shared_ptr<const Capture> capture_;
  std::unique_ptr<Recomputation> recompute_;
  OperandPlace place_;
  std::optional<OperandElement> element_;  // the part of the operand to show; nullopt: from its beginning
  std::int64_t wanted_step_ = -1;
  bool captures_newest_ = false;                 // the last capture was of a run that trained
  std::optional<OperandPlace> verdict_operand_;  // operand of the verdict that was opened without being selected
  int run_before_ = -1, chosen_run_ = -1;        // active run before Microscaling chose another, and this other one
  const History* first_of_ = nullptr;            // run whose first operand was opened; only compared
};

}  // namespace moescope
