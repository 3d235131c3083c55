#include "app/workspaces/compare_workspace.h"

#include <utility>

#include "app/workspaces/missing.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/load_difference_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/compare/runs_panel.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/overview/loss_panel.h"

namespace moescope {

CompareWorkspace::CompareWorkspace(Selection* selection, const ComparedRuns* runs, QWidget* parent)
    : Workspace(selection, "Compare", parent) {
  loss_ = addDock(new LossPanel(selection_), "dock_compare_loss");
  loss_gap_panel_ = new LossGapPanel(selection_, runs);
  gap_ = addDock(loss_gap_panel_, "dock_compare_gap");
  table_ = addDock(new RunsPanel(selection_, runs), "dock_compare_table");
  flips_ = addDock(new RoutingFlipsPanel(selection_, runs), "dock_compare_flips");
  gradient_panel_ = new GradientErrorPanel(selection_);
  gradient_ = addDock(gradient_panel_, "dock_compare_gradient");
  load_difference_ = addDock(new LoadDifferencePanel(selection_, runs), "dock_compare_load_difference");
  operand_costs_ =
      addDock(new OperandCostsPanel(selection_, OperandCostsPanel::Of::compared_run), "dock_compare_operand_costs");
  setEssential({gap_, loss_, table_});
  arrange();
  foldPanels();
}

// What one of the open runs has, is shown of it.
void CompareWorkspace::foldPanels() {
  const auto unless_any = [this](Missing missing) {
    return [this, missing = std::move(missing)](const History&) {
      QString lacking;
      for (const auto& run : selection_->histories()) {
        lacking = missing(*run);
        if (lacking.isEmpty()) break;
      }
      return lacking;
    };
  };
  foldWithout(flips_, unless_any([](const History& run) {
                const bool has = run.flip_frame_at(INT64_MAX) || run.gradient_frame_at(INT64_MAX);
                return has ? QString() : QString("routing token by token");
              }));
  foldWithout(gradient_, unless_any([](const History& run) {
                return run.gradient_frame_at(INT64_MAX) ? QString() : QString("gradients of an FP32 pass");
              }));
  foldWithout(load_difference_, unless_any(loadsMissing));
  foldWithout(operand_costs_, unless_any(quantizationMissing));
}

// Results above, causes below.
void CompareWorkspace::arrange() {
  for (QDockWidget* dock : docks()) dock->setFloating(false);
  addDockWidget(Qt::TopDockWidgetArea, gap_);
  splitDockWidget(gap_, flips_, Qt::Vertical);
  splitDockWidget(gap_, loss_, Qt::Horizontal);
  splitDockWidget(loss_, table_, Qt::Horizontal);
  splitDockWidget(flips_, gradient_, Qt::Horizontal);
  splitDockWidget(gradient_, load_difference_, Qt::Horizontal);
  tabifyDockWidget(load_difference_, operand_costs_);
  for (QDockWidget* dock : docks()) dock->show();
  load_difference_->raise();
}

void CompareWorkspace::setDefaultSizes() {
  const int across = width(), down = height();
  resizeDocks({gap_, flips_}, {down / 2, down / 2}, Qt::Vertical);
  resizeDocks({gap_, loss_, table_}, {across * 38 / 100, across * 28 / 100, across * 34 / 100}, Qt::Horizontal);
  resizeDocks({flips_, gradient_, load_difference_}, QList<int>(3, across / 3), Qt::Horizontal);
}

}  // namespace moescope
