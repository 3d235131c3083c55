#include "app/workspaces/cluster_workspace.h"

#include "widgets/cluster/deepep_gain_panel.h"
#include "widgets/cluster/layer_on_every_rank_panel.h"
#include "widgets/cluster/node_health_panel.h"
#include "widgets/cluster/published_and_modelled_panel.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"
#include "widgets/panel/verdict_line.h"

namespace moescope {

ClusterWorkspace::ClusterWorkspace(Selection* selection, QWidget* parent) : Workspace(selection, "Cluster", parent) {
  auto* published = new PublishedAndModelledPanel(selection_);
  auto* step_time = new TimeOfAStepPanel(selection_);
  auto* live_cost = new ThisImbalancePanel(selection_);
  published_ = addDock(published, "dock_cluster_published");
  step_time_ = addDock(step_time, "dock_cluster_step_time");
  live_cost_ = addDock(live_cost, "dock_cluster_live_cost");
  layers_ = addDock(new DeepEPGainPanel(selection_), "dock_cluster_layers");
  timeline_panel_ = new LayerOnEveryRankPanel(selection_);
  timeline_ = addDock(timeline_panel_, "dock_cluster_timeline");
  health_ = addDock(new NodeHealthPanel(selection_), "dock_cluster_health");
  connect(published, &PublishedAndModelledPanel::hypothesisChanged, step_time, &TimeOfAStepPanel::setHypothesis);
  connect(published, &PublishedAndModelledPanel::hypothesisChanged, live_cost, &ThisImbalancePanel::setHypothesis);
  auto* verdict = new VerdictLine(this);
  addOverPanels(verdict);
  connect(step_time, &TimeOfAStepPanel::answerChanged, timeline_panel_, [this, step_time, verdict] {
    if (step_time->answered()) timeline_panel_->show(*step_time->answered());
    const QString sentence = step_time->verdict();
    verdict->setVerdict(sentence.isEmpty() ? QStringList() : QStringList{sentence}, {step_time->about()});
  });
  setEssential({published_, step_time_});
  setLeastRow(290);  // room for the settings of a question and a name beside every bar
  arrange();
}

void ClusterWorkspace::arrange() {
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
