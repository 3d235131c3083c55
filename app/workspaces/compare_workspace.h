// The Compare workspace: how the open runs A to D differ, and whether it is more than chance.
#pragma once

#include "app/workspaces/workspace.h"

namespace moescope {

class ComparedRuns;
class GradientPanel;

class CompareWorkspace : public Workspace {
  Q_OBJECT

 public:
  CompareWorkspace(Selection* selection, const ComparedRuns* runs, QWidget* parent = nullptr);

  void arrange() override;
  void setDefaultSizes() override;
  GradientPanel* gradientPanel() const { return gradient_panel_; }

 private:
  QDockWidget *loss_, *gap_, *table_, *flips_, *gradient_, *load_difference_, *timeline_;
  GradientPanel* gradient_panel_;
};

}  // namespace moescope
