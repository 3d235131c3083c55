#include "app/workspaces/all_to_all_workspace.h"

#include "app/workspaces/missing.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/bytes_by_link_panel.h"
#include "widgets/all_to_all/bytes_on_the_wire_panel.h"
#include "widgets/all_to_all/bytes_per_token_against_k_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/all_to_all/ranks_a_token_goes_to_panel.h"

namespace moescope {

AllToAllWorkspace::AllToAllWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "All-to-all", parent) {
  matrix_ = addDock(new AllToAllPanel(selection_), "dock_a2a_matrix");
  spread_ = addDock(new RanksATokenGoesToPanel(selection_), "dock_a2a_spread");
  placement_panel_ = new ExpertPlacementPanel(selection_);
  placement_ = addDock(placement_panel_, "dock_a2a_placement");
  wire_ = addDock(new BytesOnTheWirePanel(selection_), "dock_a2a_wire");
  links_ = addDock(new BytesByLinkPanel(selection_), "dock_a2a_links");
  sweep_ = addDock(new BytesPerTokenAgainstKPanel(selection_), "dock_a2a_sweep");
  setEssential({matrix_, links_, sweep_});
  setLeastRow(215);  // height of the lower rows, which are the smaller ones
  arrange();
  for (QDockWidget* dock : {matrix_, links_, sweep_, wire_, spread_}) foldWithout(dock, copiesMissing);
  foldWithout(placement_, [](const History& run) {
    const QString loads = loadsMissing(run);
    return loads.isEmpty() ? copiesMissing(run) : loads;
  });
}

void AllToAllWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, matrix_);
  splitDockWidget(matrix_, links_, Qt::Horizontal);
  splitDockWidget(matrix_, spread_, Qt::Vertical);
  splitDockWidget(links_, sweep_, Qt::Vertical);
  tabifyDockWidget(spread_, placement_);
  tabifyDockWidget(sweep_, wire_);
  for (QDockWidget* dock : docks()) dock->show();
  spread_->raise();
  sweep_->raise();
}

void AllToAllWorkspace::setDefaultSizes() {
  resizeDocks({matrix_, links_}, QList<int>(2, width() / 2), Qt::Horizontal);
  resizeDocks({matrix_, spread_}, {height() * 3 / 5, height() * 2 / 5}, Qt::Vertical);
  resizeDocks({links_, sweep_}, {height() * 2 / 5, height() * 3 / 5}, Qt::Vertical);
}

}  // namespace moescope
