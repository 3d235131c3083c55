#include "app/router_workspace.h"

#include "widgets/bias_panel.h"
#include "widgets/capacity_panel.h"
#include "widgets/confidence_panel.h"
#include "widgets/expert_load_panel.h"
#include "widgets/gate_load_panel.h"
#include "widgets/layer_balance_panel.h"
#include "widgets/load_over_time_panel.h"

namespace moescope {

RouterWorkspace::RouterWorkspace(Selection* selection, FindingsWatch* findings, QWidget* parent)
    : Workspace(selection, "Router", parent) {
  load_ = addDock(new ExpertLoadPanel(selection_), "dock_router_load");
  load_over_time_ = addDock(new LoadOverTimePanel(selection_), "dock_router_load_over_time");
  layers_ = addDock(new LayerBalancePanel(selection_), "dock_router_layers");
  bias_ = addDock(new BiasPanel(selection_), "dock_router_bias");
  gate_ = addDock(new GateLoadPanel(selection_), "dock_router_gate");
  confidence_ = addDock(new ConfidencePanel(selection_), "dock_router_confidence");
  capacity_ = addDock(new CapacityPanel(selection_), "dock_router_capacity");
  findings_ = addFindings(findings, "dock_router_findings");
  timeline_ = addTimeline("dock_router_timeline");
  arrange();
}

// Load above, why it is so and what it costs below. Split first; a dock that is part of a tab group would be pulled
// out.
void RouterWorkspace::arrange() {
  for (QDockWidget* dock : docks()) dock->setFloating(false);
  addDockWidget(Qt::TopDockWidgetArea, load_);
  addDockWidget(Qt::BottomDockWidgetArea, timeline_);
  splitDockWidget(load_, bias_, Qt::Vertical);
  splitDockWidget(load_, load_over_time_, Qt::Horizontal);
  splitDockWidget(load_over_time_, layers_, Qt::Horizontal);
  splitDockWidget(bias_, gate_, Qt::Horizontal);
  splitDockWidget(gate_, confidence_, Qt::Horizontal);
  tabifyDockWidget(confidence_, capacity_);
  tabifyDockWidget(capacity_, findings_);
  for (QDockWidget* dock : docks()) dock->show();
  confidence_->raise();
}

void RouterWorkspace::shareOut() {
  const int across = width(), down = height();
  resizeDocks({load_, bias_}, {down / 2, down / 2}, Qt::Vertical);
  resizeDocks({load_, load_over_time_, layers_}, QList<int>(3, across / 3), Qt::Horizontal);
  resizeDocks({bias_, gate_, confidence_}, QList<int>(3, across / 3), Qt::Horizontal);
}

}  // namespace moescope
