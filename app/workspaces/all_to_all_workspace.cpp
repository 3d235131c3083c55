#include "app/workspaces/all_to_all_workspace.h"

#include <algorithm>

#include "app/workspaces/missing.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/all_to_all/fullest_rank_panel.h"

namespace moescope {
namespace {

constexpr int kMinLower = 170;  // pixels of the lower row

}  // namespace

AllToAllWorkspace::AllToAllWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "All-to-all", parent) {
  matrix_ = addDock(new AllToAllPanel(selection_), "dock_a2a_matrix");
  fullest_ = addDock(new FullestRankPanel(selection_), "dock_a2a_spread");
  placement_panel_ = new ExpertPlacementPanel(selection_);
  placement_ = addDock(placement_panel_, "dock_a2a_placement");
  setEssential({matrix_, fullest_});
  setLeastRow(180);
  arrange();
  for (QDockWidget* dock : {matrix_, fullest_}) foldWithout(dock, copiesMissing);
  foldWithout(placement_, [](const History& run) {
    const QString loads = loadsMissing(run);
    return loads.isEmpty() ? copiesMissing(run) : loads;
  });
}

void AllToAllWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, matrix_);
  splitDockWidget(matrix_, fullest_, Qt::Vertical);
  tabifyDockWidget(matrix_, placement_);
  for (QDockWidget* dock : docks()) dock->show();
  matrix_->raise();
}

void AllToAllWorkspace::setDefaultSizes() {
  const int lower = std::max(height() / 4, kMinLower);
  resizeDocks({matrix_, fullest_}, {height() - lower, lower}, Qt::Vertical);
}

}  // namespace moescope
