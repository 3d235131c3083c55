#include "app/workspaces/cluster_workspace.h"

#include "widgets/cluster/live_cost_panel.h"
#include "widgets/cluster/measured_layers_panel.h"
#include "widgets/cluster/node_health_panel.h"
#include "widgets/cluster/published_panel.h"
#include "widgets/cluster/rank_timeline_panel.h"
#include "widgets/cluster/step_time_panel.h"

namespace moescope {

ClusterWorkspace::ClusterWorkspace(Selection* selection, QWidget* parent) : Workspace(selection, "Cluster", parent) {
  auto* published = new PublishedPanel(selection_);
  auto* step_time = new StepTimePanel(selection_);
  auto* live_cost = new LiveCostPanel(selection_);
  published_ = addDock(published, "dock_cluster_published");
  step_time_ = addDock(step_time, "dock_cluster_step_time");
  live_cost_ = addDock(live_cost, "dock_cluster_live_cost");
  layers_ = addDock(new MeasuredLayersPanel(selection_), "dock_cluster_layers");
  timeline_panel_ = new RankTimelinePanel(selection_);
  timeline_ = addDock(timeline_panel_, "dock_cluster_timeline");
  health_ = addDock(new NodeHealthPanel(selection_), "dock_cluster_health");
  connect(published, &PublishedPanel::hypothesisChanged, step_time, &StepTimePanel::setHypothesis);
  connect(published, &PublishedPanel::hypothesisChanged, live_cost, &LiveCostPanel::setHypothesis);
  connect(step_time, &StepTimePanel::answerChanged, timeline_panel_, [this, step_time] {
    if (step_time->answered()) timeline_panel_->show(*step_time->answered());
  });
  arrange();
}

void ClusterWorkspace::arrange() {
  for (QDockWidget* dock : docks()) dock->setFloating(false);
  addDockWidget(Qt::TopDockWidgetArea, published_);
  splitDockWidget(published_, step_time_, Qt::Horizontal);
  splitDockWidget(published_, live_cost_, Qt::Vertical);
  splitDockWidget(step_time_, layers_, Qt::Vertical);
  tabifyDockWidget(layers_, timeline_);
  tabifyDockWidget(layers_, health_);
  for (QDockWidget* dock : docks()) dock->show();
  layers_->raise();
}

void ClusterWorkspace::setDefaultSizes() {
  resizeDocks({published_, step_time_}, QList<int>(2, width() / 2), Qt::Horizontal);
  resizeDocks({published_, live_cost_}, {height() * 11 / 20, height() * 9 / 20}, Qt::Vertical);
  resizeDocks({step_time_, layers_}, {height() * 11 / 20, height() * 9 / 20}, Qt::Vertical);
}

}  // namespace moescope
