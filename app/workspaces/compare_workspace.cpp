#include "app/workspaces/compare_workspace.h"

#include <QTimer>
#include <algorithm>
#include <utility>

#include "app/workspaces/workspace.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/load_difference_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/regression_panel.h"
#include "widgets/compare/routing_flips_panel.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/compare/verdicts_panel.h"
#include "widgets/look/tokens.h"
#include "widgets/overview/findings_watch.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr int kMinRowHeight = 160;  // the table and two rows fit in a window of 1024 x 700
constexpr int kMinPlotRoom = 280;   // height for each plot below the table in which it is at least 120 high

}  // namespace

CompareWorkspace::CompareWorkspace(Selection* selection, const FindingsWatch* findings, ComparedRuns* runs,
                                   QWidget* parent)
    : Workspace(selection, "Compare", parent) {
  judged_ = new JudgedRuns(selection_, runs, this);
  verdicts_ = new VerdictsPanel(selection_, runs, judged_);
  connect(verdicts_, &VerdictsPanel::viewShown, this, [this] {
    table_->show();
    if (isVisible()) applySizes();
  });
  table_ = addDock(verdicts_, "dock_compare_table");
  gap_ = addDock(new LossGapPanel(selection_, judged_), "dock_compare_gap");
  loss_panel_ = new LossPanel(selection_);
  loss_ = addDock(loss_panel_, "dock_compare_loss");
  flips_ = addDock(new RoutingFlipsPanel(selection_), "dock_compare_flips");
  gradient_panel_ = new GradientErrorPanel(selection_);
  gradient_ = addDock(gradient_panel_, "dock_compare_gradient");
  load_difference_ = addDock(new LoadDifferencePanel(selection_), "dock_compare_load_difference");
  regression_ = addDock(new RegressionPanel(selection_, judged_), "dock_compare_regression");
  strip_ = makeStrip(findings);
  addOverPanels(strip_);
  for (QDockWidget* dock : docks()) dock->widget()->setProperty("shows_all_runs", true);
  connect(selection_, &Selection::dataChanged, this, &CompareWorkspace::followOrigin);
  connect(selection_, &Selection::dataChanged, this, &CompareWorkspace::fitTable);
  followFont(this, [this] { QTimer::singleShot(0, this, &CompareWorkspace::keepRows); });  // after the table's type
  setEssential({table_, gap_});
  setLeastRow(kMinRowHeight);
  arrange();
  foldPanels();
}

VerdictStrip* CompareWorkspace::makeStrip(const FindingsWatch* findings) const {
  auto* strip = new VerdictStrip(selection_, judged_);
  strip->setHealth([findings](int run) { return findings->health(run); });
  connect(findings, &FindingsWatch::changed, strip, &VerdictStrip::fill);
  connect(strip, &VerdictStrip::explanationRequested, verdicts_, &Panel::explainAt);
  connect(static_cast<RegressionPanel*>(regression_->widget()), &RegressionPanel::judged, strip,
          &VerdictStrip::setRegression);
  return strip;
}

// Folds a panel only if no open run has data for it.
void CompareWorkspace::foldPanels() {
  const auto unless_any = [this](Missing missing) {
    return [this, missing = std::move(missing)](const History&) {
      QString missing_text;
      for (const auto& run : selection_->histories()) {
        missing_text = missing(*run);
        if (missing_text.isEmpty()) break;
      }
      return missing_text;
    };
  };
  const auto flips_missing = unless_any([this](const History& run) {
    if (!hasAnswer()) return QString("a run to compare with");
    if (run.settings_at_start()->holds(&RouterConfig::force_balance)) return QString("flips (balance is forced)");
    const bool is_own = !run.info().config_toml.empty();
    const bool has = is_own || run.flip_frame_at(INT64_MAX) || run.gradient_frame_at(INT64_MAX);
    return has ? QString() : QString("routing token by token");
  });
  foldWithout(flips_, flips_missing, true);
  foldWithout(gradient_, unless_any([](const History& run) {
                const bool has = run.gradient_frame_at(INT64_MAX) ||
                                 !is_missing(run.value_at(Metric::fp32_ratio_beyond_2, kWholeRun, INT64_MAX));
                return has ? QString() : QString("gradients of an FP32 pass");
              }));
  const auto other_run = [this](const History&) { return hasAnswer() ? QString() : QString("a run to compare with"); };
  for (QDockWidget* dock : {gap_, loss_, regression_}) foldWithout(dock, other_run, true);
  const auto loads = [this](const History& run) { return hasAnswer() ? loadsMissing(run) : QString("another run"); };
  foldWithout(load_difference_, unless_any(loads), true);
}

// Arranges the default layout: verdicts above, panels on the cause of differences below. Losses, regression and the
// difference of loads are hidden until they are asked for.
void CompareWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, table_);
  splitDockWidget(table_, gap_, Qt::Vertical);
  splitDockWidget(gap_, flips_, Qt::Horizontal);
  splitDockWidget(flips_, load_difference_, Qt::Vertical);
  splitDockWidget(flips_, gradient_, Qt::Horizontal);
  splitDockWidget(gap_, loss_, Qt::Vertical);
  splitDockWidget(flips_, regression_, Qt::Horizontal);
  for (QDockWidget* dock : docks()) dock->show();
  for (QDockWidget* dock : {loss_, regression_, load_difference_}) dock->hide();
}

void CompareWorkspace::arrangeEssential() {
  Workspace::arrangeEssential();
  splitDockWidget(table_, gap_, Qt::Vertical);
}

// The panel of load differences compares the weights of the experts of two checkpoints.
void CompareWorkspace::followOrigin() {
  const bool same_texts = onTheSameTexts(*selection_);
  if (std::exchange(shows_checkpoints_, same_texts) == same_texts) return;
  load_difference_->setVisible(same_texts);
  if (isVisible()) applySizes();
}

// For several logs that have loads but no routing of single tokens, shows the load difference, MaxVio, and whether one
// has regressed.
bool CompareWorkspace::useRoomOfFolded() {
  const auto has_loads = [](const HistoryPtr& run) { return loadsMissing(*run).isEmpty(); };
  const bool is_own = !selection_->histories().empty() && !selection_->histories().front()->info().config_toml.empty();
  if (is_own || !hasAnswer() || !flips_->isHidden() || std::ranges::none_of(selection_->histories(), has_loads))
    return false;
  loss_panel_->setMetric(Metric::max_vio);
  loss_->setWindowTitle("MaxVio and losses");
  tabifyDockWidget(regression_, load_difference_);
  for (QDockWidget* dock : {loss_, regression_, load_difference_}) dock->show();
  regression_->raise();
  room_is_used_ = true;
  return true;
}

void CompareWorkspace::giveRoomBack() {
  room_is_used_ = false;
  loss_->setWindowTitle("Loss");
  placeLoss(0);
  for (QDockWidget* dock : {loss_, regression_}) dock->hide();
  if (!shows_checkpoints_) load_difference_->hide();
}

// Gives the table the height of its rows.
void CompareWorkspace::fitTable() {
  if (std::exchange(rows_, selection_->histories().size()) == selection_->histories().size()) return;
  keepRows();
  if (isVisible()) applySizes();
}

// Keeps all rows of the table visible, also with the larger type of the projector view. Returns their height.
int CompareWorkspace::keepRows() {
  const int table = std::min(verdicts_->heightWanted(), height() * 3 / 5);
  verdicts_->setMinimumHeight(table);
  verdicts_->setMaximumHeight(hasAnswer() ? verdicts_->heightWanted() : QWIDGETSIZE_MAX);
  return table;
}

// Losses are a tab beside the loss gap if two plots below each other would be too low.
void CompareWorkspace::placeLoss(int room) {
  const bool is_tab = room_is_used_ && room < 2 * withType(kMinPlotRoom, fontMetrics());
  if (std::exchange(loss_is_tab_, is_tab) == is_tab) return;
  if (is_tab)
    tabifyDockWidget(gap_, loss_);
  else
    splitDockWidget(gap_, loss_, Qt::Vertical);
  gap_->raise();
}

void CompareWorkspace::setDefaultSizes() {
  const int across = width(), down = height();
  const int table = keepRows();
  resizeDocks({table_, gap_}, {table, down - table}, Qt::Vertical);
  QDockWidget* right = regression_->isHidden() ? load_difference_ : regression_;
  if (flips_->isHidden() && !right->isHidden())
    resizeDocks({gap_, right}, QList<int>(2, across / 2), Qt::Horizontal);
  else
    resizeDocks({gap_, flips_, gradient_}, {across / 2, across / 4, across / 4}, Qt::Horizontal);
  placeLoss(down - table);
  const QList<int> halves(2, (down - table) / 2);
  if (!loss_->isHidden() && !loss_is_tab_) resizeDocks({gap_, loss_}, halves, Qt::Vertical);
  if (!load_difference_->isHidden()) resizeDocks({flips_, load_difference_}, halves, Qt::Vertical);
}

}  // namespace moescope
