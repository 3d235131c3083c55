#include "app/workspaces/overview.h"

#include "app/workspaces/missing.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/microscaling/block_scale_histogram_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/overview/balance_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/load_over_time_panel.h"

namespace moescope {

Overview::Overview(Selection* selection, FindingsWatch* findings, QWidget* parent)
    : Workspace(selection, "Overview", parent) {
  addLoss();
  addExpertLoad();
  addLoadOverTime();
  addBalance();
  addAllToAll();
  addScaleHistogram();
  addQuantError();
  findings_ = addFindings(findings, "dock_findings");
  addHealth(findings);
  setEssential({loss_, expert_load_, balance_, load_over_time_});
  arrange();
  foldWithout(all_to_all_, copiesMissing);
  for (QDockWidget* dock : {scale_histogram_, quant_error_}) foldWithout(dock, quantizationMissing);
  connect(findings_, &QDockWidget::topLevelChanged, this, [this] { keepRoom(); });
}

// Over the panels, whatever their layout.
void Overview::addHealth(FindingsWatch* findings) {
  auto* banner = new HealthBanner(selection_, findings, this);
  addOverPanels(banner);
  connect(banner, &HealthBanner::findingWanted, this, [this](const QString& id) {
    bringIntoView(findings_);
    qobject_cast<FindingsPanel*>(findings_->widget())->open(id);
  });
}

void Overview::addLoss() {
  loss_ = addDock(new LossPanel(selection_), "dock_loss");
}
void Overview::addExpertLoad() {
  expert_load_ = addDock(new ExpertLoadPanel(selection_), "dock_expert_load");
}
void Overview::addLoadOverTime() {
  load_over_time_ = addDock(new LoadOverTimePanel(selection_), "dock_load_over_time");
}
void Overview::addBalance() {
  balance_ = addDock(new BalancePanel(selection_), "dock_balance");
}
void Overview::addAllToAll() {
  all_to_all_ = addDock(new AllToAllPanel(selection_), "dock_all_to_all");
}
void Overview::addScaleHistogram() {
  scale_histogram_ = addDock(new BlockScaleHistogramPanel(selection_), "dock_scale_histogram");
}
void Overview::addQuantError() {
  quant_error_ = addDock(new QuantizationErrorPanel(selection_), "dock_quant_error");
}

// Two rows: what the router does over what it costs and what the number formats do. Split first; a dock that is part
// of a tab group would be pulled out of it.
void Overview::arrange() {
  for (QDockWidget* dock : docks()) dock->setFloating(false);
  addDockWidget(Qt::TopDockWidgetArea, loss_);
  splitDockWidget(loss_, balance_, Qt::Vertical);
  splitDockWidget(loss_, expert_load_, Qt::Horizontal);
  splitDockWidget(expert_load_, load_over_time_, Qt::Horizontal);
  splitDockWidget(balance_, all_to_all_, Qt::Horizontal);
  splitDockWidget(all_to_all_, scale_histogram_, Qt::Horizontal);
  splitDockWidget(scale_histogram_, quant_error_, Qt::Horizontal);
  for (QDockWidget* dock : docks()) dock->show();
  tabifyDockWidget(balance_, findings_);
  balance_->raise();
}

// What is wrong stands beside the figures that show it, in the place of a panel that is folded: beside Balance itself,
// which has tabs, it would become one of them again.
bool Overview::useRoomOfFolded() {
  if (!all_to_all_->isHidden() || !tabifiedDockWidgets(balance_).contains(findings_)) return false;
  splitDockWidget(all_to_all_, findings_, Qt::Horizontal);
  return true;
}

void Overview::giveRoomBack() {
  tabifyDockWidget(balance_, findings_);
  balance_->raise();
}

void Overview::setDefaultSizes() {
  const int down = height();
  resizeDocks({loss_, balance_}, {down / 2, down / 2}, Qt::Vertical);
  shareRoom({loss_, expert_load_, load_over_time_});
  QList<QDockWidget*> below{balance_, all_to_all_, scale_histogram_, quant_error_};
  if (!tabifiedDockWidgets(balance_).contains(findings_)) below << findings_;
  shareRoom(below);
}

}  // namespace moescope
