#include "app/workspaces/router_workspace.h"

#include <QTimer>
#include <algorithm>
#include <utility>

#include "app/workspaces/missing.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"

namespace moescope {

namespace {

constexpr double kRightShare = 0.34;  // share of the width for findings, layers and the panel of the selected expert
constexpr int kMinRightWidth = 300, kMaxRightWidth = 480;
// A panel of figures of this height shows its plot; three rows and the line of folded panels fit in a window of
// 1024 x 700.
constexpr int kMinCurvesHeight = 160;

template <auto member>
bool hasAny(const RouterFrame& router) {
  return !(router.*member).empty();
}

Workspace::Missing unlessAnyRouter(bool (*has)(const RouterFrame&), const char* what) {
  return [has, what](const History& run) { return routersMissing(run, has, what); };
}

}  // namespace

RouterWorkspace::RouterWorkspace(Selection* selection, FindingsWatch* findings, QWidget* parent)
    : Workspace(selection, "Router", parent) {
  load_ = addDock(new ExpertLoadPanel(selection_), "dock_router_load");
  load_over_time_ = addDock(new ExpertLoadPanel(selection_, ExpertLoadPanel::one_layer), "dock_router_load_over_time");
  balance_ = addDock(new BalancePanel(selection_), "dock_router_balance");
  bias_ = addDock(new ExpertBiasOverTimePanel(selection_), "dock_router_bias");
  auto* confidence = new RouterConfidenceAndLossesPanel(selection_);
  confidence_ = addDock(confidence, "dock_router_confidence");
  confidence->setMinimumHeight(kMinCurvesHeight);
  findings_ = addFindings(findings, "dock_router_findings");
  card_panel_ = new ExpertPanel(selection_);
  card_ = addDock(card_panel_, "dock_router_expert");
  addVerdict(findings);
  setEssential({load_, load_over_time_, bias_, balance_});
  setLeastRow(kMinCurvesHeight);
  arrange();
  foldWithout(bias_, unlessAnyRouter(hasAny<&RouterFrame::expert_bias>, "expert bias"));
  foldWithout(confidence_, [confidence](const History& run) {
    return confidence->hasFigures(run) ? QString() : QString("router losses");
  });
  connect(selection_, &Selection::focusChanged, this, &RouterWorkspace::showCardOfChosen);
}

// When another expert is selected, brings its panel to the front, even if the panel was closed.
void RouterWorkspace::showCardOfChosen() {
  const int before = std::exchange(shown_expert_, selection_->expert());
  if (shown_expert_ == before) return;
  const bool was_shown = card_->isVisibleTo(this);
  card_->setVisible(shown_expert_ >= 0);
  const bool is_other = was_shown != (shown_expert_ >= 0);
  if (card_->isFloating()) return;
  QTimer::singleShot(0, this, [this, is_other] {  // a dock that was hidden has a tab then
    if (is_other) applySizes();
    if (shown_expert_ < 0) return;
    card_->lower();  // else raise() does nothing for the dock that is taken for the top one
    card_->raise();
  });
}

void RouterWorkspace::hideWhatNeedsAChoice() {
  if (selection_->expert() < 0) card_->hide();
}

// Arranges the default layout: the load at the left; findings, balance and the selected expert at the right; panels
// that explain the load as tabs beside it. Splits docks before it tabs them, since splitting takes a dock out of its
// tab group.
void RouterWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, load_);
  splitDockWidget(load_, findings_, Qt::Horizontal);
  splitDockWidget(load_, load_over_time_, Qt::Vertical);
  splitDockWidget(findings_, balance_, Qt::Vertical);
  splitDockWidget(balance_, card_, Qt::Vertical);
  tabifyDockWidget(load_over_time_, bias_);
  tabifyDockWidget(card_, confidence_);
  for (QDockWidget* dock : docks()) dock->setVisible(dock != card_ || selection_->expert() >= 0);
  load_over_time_->raise();
  balance_->raise();
  confidence_->raise();
  card_->raise();
}

void RouterWorkspace::setDefaultSizes() {
  const int right = std::clamp(static_cast<int>(width() * kRightShare), kMinRightWidth, kMaxRightWidth);
  resizeDocks({load_, findings_}, {width() - right, right}, Qt::Horizontal);
  const int room = height() - menuWidget()->height();  // below the verdict
  resizeDocks({load_, load_over_time_}, {room * 5 / 8, room * 3 / 8}, Qt::Vertical);
  QDockWidget* lowest = card_->isVisibleTo(this) ? card_ : confidence_;
  // In a window of 1024 x 700 this leaves room for the curves of both panels of figures.
  resizeDocks({findings_, balance_, lowest}, {room / 3, room / 3, room / 3}, Qt::Vertical);
}

}  // namespace moescope
