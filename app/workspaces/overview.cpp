#include "app/workspaces/overview.h"

#include <QResizeEvent>
#include <QTimer>
#include <algorithm>
#include <array>

#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/missing.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

constexpr int kMinRow = 146, kMinRowOfColumn = 240;  // least height of a row of panels
constexpr double kLeftShare = 0.33;                  // share of the width
constexpr std::array kLeftShares{0.37, 0.31, 0.32};  // shares of the height: loss, all-to-all, quantization error
constexpr std::array kRightShares{0.6, 0.4};         // with forced balance: loss gap, gradient error
// Shares of the height in one column; the second panel is the expert load.
constexpr std::array kColumnShares{0.2, 0.4, 0.2, 0.2};

}  // namespace

Overview::Overview(Selection* selection, FindingsWatch* findings, const CompareWorkspace& compare, QWidget* parent)
    : Workspace(selection, "Overview", parent) {
  loss_ = addDock(new LossPanel(selection_), "dock_loss");
  expert_load_ = addDock(new ExpertLoadPanel(selection_, ExpertLoadPanel::over_time), "dock_expert_load");
  all_to_all_ = addDock(new AllToAllPanel(selection_), "dock_all_to_all");
  quant_error_ = addDock(new QuantizationErrorPanel(selection_), "dock_quant_error");
  gap_ = addDock(new LossGapPanel(selection_, compare.judged()), "dock_overview_gap");
  gradient_ = addDock(new GradientErrorPanel(selection_), "dock_overview_gradient");
  for (QDockWidget* dock : {gap_, gradient_}) dock->widget()->setProperty("shows_all_runs", true);
  addVerdict(findings)->addTiles();
  auto* strip = compare.makeStrip(findings);
  for (auto signal : {&VerdictStrip::runWanted, &VerdictStrip::twinRequested, &VerdictStrip::forcedBalanceRequested,
                      &VerdictStrip::seedsRequested})
    connect(strip, signal, compare.strip(), signal);
  connect(strip, &VerdictStrip::stepsRequested, compare.strip(), &VerdictStrip::stepsRequested);
  connect(selection_, &Selection::dataChanged, strip,
          [this, strip] { strip->setVisible(comparesForced(*selection_)); });
  strip->hide();
  addOverPanels(strip);
  setEssential({expert_load_, loss_, quant_error_});
  arrange();
  const auto unforced = [this](const QString& missing) {
    return comparesForced(*selection_) ? QString("choices of experts (balance is forced)") : missing;
  };
  foldWithout(
      expert_load_, [unforced](const History&) { return unforced({}); }, true);
  foldWithout(
      all_to_all_,
      [unforced](const History& run) { return unforced(run.info().config_toml.empty() ? copiesMissing(run) : ""); },
      true);
  foldWithout(quant_error_, quantizationMissing, true);
}

bool Overview::isNarrow() const {
  return width() < kNarrowWindow;
}

// Splits docks before it tabs them, since splitting takes a dock out of its tab group.
void Overview::arrange() {
  setOneColumn(isVisible() && isNarrow());
  addDockWidget(Qt::TopDockWidgetArea, loss_);
  if (one_column_) {
    splitDockWidget(loss_, expert_load_, Qt::Vertical);
    splitDockWidget(expert_load_, all_to_all_, Qt::Vertical);
  } else {
    splitDockWidget(loss_, expert_load_, Qt::Horizontal);
    splitDockWidget(loss_, all_to_all_, Qt::Vertical);
  }
  splitDockWidget(all_to_all_, quant_error_, Qt::Vertical);
  splitDockWidget(expert_load_, gap_, Qt::Vertical);
  splitDockWidget(gap_, gradient_, Qt::Vertical);
  for (QDockWidget* dock : docks()) dock->setVisible(dock != gap_ && dock != gradient_);
}

void Overview::setDefaultSizes() {
  const auto share = [this](const QList<QDockWidget*>& docks, const auto& shares) {
    QList<int> heights;
    for (const double share : shares) heights << static_cast<int>(share * height());
    resizeDocks(docks, heights, Qt::Vertical);
  };
  if (one_column_) return share({loss_, expert_load_, all_to_all_, quant_error_}, kColumnShares);
  const int left_width = static_cast<int>(kLeftShare * width());
  resizeDocks({loss_, expert_load_->isHidden() ? gap_ : expert_load_}, {left_width, width() - left_width},
              Qt::Horizontal);
  share({loss_, all_to_all_, quant_error_}, kLeftShares);
  share({gap_, gradient_}, kRightShares);
}

// Only a comparison with forced balance folds the expert load.
bool Overview::useRoomOfFolded() {
  gap_->setVisible(isFolded(expert_load_));
  gradient_->setVisible(isFolded(expert_load_) && std::ranges::any_of(selection_->histories(), [](const auto& run) {
                          return run->gradient_frame_at(INT64_MAX) != nullptr;
                        }));
  return isFolded(expert_load_);
}

void Overview::setOneColumn(bool one_column) {
  one_column_ = one_column;
  setLeastRow(one_column_ ? kMinRowOfColumn : kMinRow);
  followWidth();
}

void Overview::resizeEvent(QResizeEvent* event) {
  Workspace::resizeEvent(event);
  followWidth();
}

// A layout may have been restored before the window is shown.
void Overview::showEvent(QShowEvent* event) {
  Workspace::showEvent(event);
  followWidth();
}

void Overview::followWidth() {
  if (isVisible() && one_column_ != isNarrow()) QTimer::singleShot(0, this, &Overview::arrangeForWidth);
}

// Shows one scrolling column in a narrow window. Docks that the user closed or floated stay closed or floating.
void Overview::arrangeForWidth() {
  if (one_column_ == isNarrow()) return;
  QList<QDockWidget*> closed, floating;
  for (QDockWidget* dock : docks()) {
    if (dock->isHidden()) closed << dock;
    if (dock->isFloating()) floating << dock;
  }
  arrangeAnew();
  for (QDockWidget* dock : floating) dock->setFloating(true);
  for (QDockWidget* dock : closed) dock->hide();
  foldAnew();
  applySizes();
}

}  // namespace moescope
