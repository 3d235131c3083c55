// The Microscaling workspace: effects of number formats on the operands of a run, and on any tensor, down to single
// blocks. The default layout shows the errors of all operands, the block scales of one, and the microscope together.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class TensorLab;

class MicroscalingWorkspace : public Workspace {
  Q_OBJECT

 public:
  explicit MicroscalingWorkspace(Selection* selection, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  bool hasAnswer() const override { return !isFolded(error_) || !isFolded(costs_); }
  TensorLab* tensorLab() const { return tensor_lab_; }
  void showTensors();  // brings the list of tensors and the map of block scales to the front
  void showMicroscope() { bringIntoView(microscope_); }

 private:
  bool foldsWithoutRun() const override;
  void bringUpError();

  TensorLab* tensor_lab_;
  std::pair<const History*, QDockWidget*> shown_{};  // run whose panels were brought to the front, and the first one
  QDockWidget *error_, *costs_, *tensors_, *what_if_, *scales_, *map_, *microscope_;
};

}  // namespace moescope
