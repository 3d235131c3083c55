#include "app/workspaces/all_to_all_workspace.h"

#include "app/workspaces/missing.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"

namespace moescope {

AllToAllWorkspace::AllToAllWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "All-to-all", parent) {
  matrix_ = addDock(new AllToAllPanel(selection_), "dock_a2a_matrix");
  placement_panel_ = new ExpertPlacementPanel(selection_);
  placement_ = addDock(placement_panel_, "dock_a2a_placement");
  setEssential({matrix_});
  setLeastRow(180);
  arrange();
  foldWithout(matrix_, copiesMissing);
  foldWithout(placement_, loadsMissing);
}

void AllToAllWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, matrix_);
  tabifyDockWidget(matrix_, placement_);
  for (QDockWidget* dock : docks()) dock->show();
  matrix_->raise();
}

}  // namespace moescope
