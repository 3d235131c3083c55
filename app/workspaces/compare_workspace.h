// The Compare workspace: how the open runs A to E differ, and whether it is more than chance.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class ComparedRuns;
class GradientErrorPanel;
class LossGapPanel;

class CompareWorkspace : public Workspace {
  Q_OBJECT

 public:
  CompareWorkspace(Selection* selection, const ComparedRuns* runs, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  GradientErrorPanel* gradientPanel() const { return gradient_panel_; }
  LossGapPanel* lossGapPanel() const { return loss_gap_panel_; }

 private:
  void foldPanels();
  QDockWidget *loss_, *gap_, *table_, *flips_, *gradient_, *load_difference_, *operand_costs_;
  GradientErrorPanel* gradient_panel_;
  LossGapPanel* loss_gap_panel_;
};

}  // namespace moescope
