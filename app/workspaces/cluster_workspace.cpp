#include "app/workspaces/cluster_workspace.h"

#include <cmath>

#include "widgets/cluster/deepep_gain_panel.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"
#include "widgets/panel/verdict_line.h"

namespace moescope {
namespace {

constexpr double kCostShare = 0.55;  // of the height; its table has more rows than that of DeepEP gain

}  // namespace

ClusterWorkspace::ClusterWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "Cluster", parent), step_time_panel_(new TimeOfAStepPanel(selection)) {
  step_time_ = addDock(step_time_panel_, "dock_cluster_step_time");
  auto* imbalance = new ThisImbalancePanel(selection_);
  live_cost_ = addDock(imbalance, "dock_cluster_live_cost");
  auto* gain = new DeepEPGainPanel(selection_);
  layers_ = addDock(gain, "dock_cluster_layers");
  auto* verdict = new VerdictLine(this);
  addOverPanels(verdict);
  const auto ask = [this, imbalance] { imbalance->setCluster(step_time_panel_->question()); };
  connect(step_time_panel_, &TimeOfAStepPanel::clusterChosen, imbalance, ask);
  ask();
  connect(imbalance, &ThisImbalancePanel::answerChanged, this, [this, verdict, imbalance, gain] {
    verdict->setVerdict(imbalance->headline(), imbalance->about());
    gain->setSteps(imbalance->choices(), step_time_panel_->question());
  });
  setEssential({step_time_, layers_});
  setLeastRow(250);  // two rows fit in a window of 1024 x 700
  arrange();
}

void ClusterWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, step_time_);
  splitDockWidget(step_time_, live_cost_, Qt::Horizontal);
  splitDockWidget(live_cost_, layers_, Qt::Vertical);
  for (QDockWidget* dock : docks()) dock->show();
}

void ClusterWorkspace::setDefaultSizes() {
  resizeDocks({step_time_, live_cost_}, QList<int>(2, width() / 2), Qt::Horizontal);
  const int cost = to_int(std::lround(kCostShare * height()));
  resizeDocks({live_cost_, layers_}, {cost, height() - cost}, Qt::Vertical);
}

}  // namespace moescope
