// The Microscaling workspace: effects of number formats on the operands of a run, and on any tensor, down to single
// blocks.
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
  void showTensorLab();  // brings the tab of the tensor laboratory to the front

 private:
  void bringUpError();

  TensorLab* tensor_lab_;
  const History* shown_ = nullptr;  // only compared, never dereferenced
  QDockWidget *lab_dock_, *quant_error_, *operand_costs_;
};

}  // namespace moescope
