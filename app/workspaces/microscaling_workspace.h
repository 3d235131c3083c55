// The Microscaling workspace: effects of number formats on the run's operands, and on any tensor down to the block.
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
  void arrangeEssential() override;
  QList<Panel*> panels() const override;
  TensorLab* tensorLab() const { return tensor_lab_; }
  void showTensorLab();  // brings the laboratory to the front of its tabs

 private:
  void bringUpError();

  TensorLab* tensor_lab_;
  const History* shown_ = nullptr;  // only compared
  QDockWidget *lab_dock_, *quant_error_, *operand_costs_, *scale_histogram_, *formats_;
};

}  // namespace moescope
