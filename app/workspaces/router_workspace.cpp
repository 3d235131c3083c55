#include "app/workspaces/router_workspace.h"

#include <QTimer>
#include <algorithm>
#include <utility>

#include "app/workspaces/missing.h"
#include "widgets/overview/balance_panel.h"
#include "widgets/router/balance_of_all_layers_panel.h"
#include "widgets/router/bias_and_fair_share_panel.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/router/gate_mass_against_load_panel.h"
#include "widgets/router/load_over_time_panel.h"
#include "widgets/router/padding_and_capacity_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"
#include "widgets/router/scores_and_margins_panel.h"

namespace moescope {

namespace {

constexpr double kCardShare = 0.23;  // of the width, for the card of an expert

template <auto member>
bool hasAny(const RouterFrame& router) {
  return !(router.*member).empty();
}

Workspace::Missing unlessAnyRouter(bool (*has)(const RouterFrame&), const char* what) {
  return [has, what](const History& run) { return anyRouter(run, has) ? QString() : QString(what); };
}

}  // namespace

RouterWorkspace::RouterWorkspace(Selection* selection, FindingsWatch* findings, QWidget* parent)
    : Workspace(selection, "Router", parent) {
  load_ = addDock(new ExpertLoadPanel(selection_), "dock_router_load");
  load_over_time_ = addDock(new LoadOverTimePanel(selection_), "dock_router_load_over_time");
  layers_ = addDock(new BalanceOfAllLayersPanel(selection_), "dock_router_layers");
  bias_ = addDock(new ExpertBiasOverTimePanel(selection_), "dock_router_bias");
  fair_ = addDock(new BiasAndFairSharePanel(selection_), "dock_router_fair_share");
  gate_ = addDock(new GateMassAgainstLoadPanel(selection_), "dock_router_gate");
  scores_ = addDock(new ScoresAndMarginsPanel(selection_), "dock_router_scores");
  confidence_ = addDock(new RouterConfidenceAndLossesPanel(selection_), "dock_router_confidence");
  capacity_ = addDock(new PaddingAndCapacityPanel(selection_), "dock_router_capacity");
  balance_ = addDock(new BalancePanel(selection_), "dock_router_balance");
  findings_ = addFindings(findings, "dock_router_findings");
  card_panel_ = new ExpertPanel(selection_);
  card_ = addDock(card_panel_, "dock_router_expert");
  addVerdict(findings);
  setEssential({load_, load_over_time_, bias_, layers_});
  arrange();
  foldWithout(bias_, unlessAnyRouter(hasAny<&RouterFrame::expert_bias>, "expert bias"));
  foldWithout(fair_, [](const History& run) {
    const auto frame =
        run.specialisation_layer_at(run.info().moe_layers.empty() ? 0 : run.info().moe_layers[0], run.steps().last);
    const bool any = frame && std::ranges::any_of(frame->specialisation, [](const SpecialisationFrame& special) {
                       return !special.bias_for_share_EQ.empty();
                     });
    return any ? QString() : QString("bias and fair share");
  });
  foldWithout(gate_, unlessAnyRouter(hasAny<&RouterFrame::gate_mass>, "gate mass"));
  foldWithout(scores_, unlessAnyRouter(hasAny<&RouterFrame::score_chosen>, "score histograms"));
  connect(selection_, &Selection::focusChanged, this, &RouterWorkspace::showCardOfChosen);
}

// Another expert than before was chosen, in whatever panel: its card comes, even when it was closed. Without one it has
// nothing to show, and its room is the others'.
void RouterWorkspace::showCardOfChosen() {
  const int before = std::exchange(shown_expert_, selection_->expert());
  if (shown_expert_ == before || card_->isVisibleTo(this) == (shown_expert_ >= 0)) return;
  card_->setVisible(shown_expert_ >= 0);
  makeColumnFor(*card_, kCardShare);
  if (!card_->isFloating()) QTimer::singleShot(0, this, [this] { applySizes(); });
}

void RouterWorkspace::hideWhatNeedsAChoice() {
  if (selection_->expert() < 0) card_->hide();
}

// Load above, why it is so and what it costs below. Split first; a dock that is part of a tab group would be pulled
// out.
void RouterWorkspace::arrange() {
  for (QDockWidget* dock : docks()) dock->setFloating(false);
  addDockWidget(Qt::TopDockWidgetArea, load_);
  splitDockWidget(load_, card_, Qt::Horizontal);  // first: it takes the whole height
  splitDockWidget(load_, bias_, Qt::Vertical);
  splitDockWidget(load_, load_over_time_, Qt::Horizontal);
  splitDockWidget(load_over_time_, layers_, Qt::Horizontal);
  splitDockWidget(bias_, gate_, Qt::Horizontal);
  splitDockWidget(gate_, confidence_, Qt::Horizontal);
  tabifyDockWidget(bias_, fair_);
  tabifyDockWidget(gate_, scores_);
  tabifyDockWidget(confidence_, capacity_);
  tabifyDockWidget(capacity_, balance_);
  tabifyDockWidget(scores_, findings_);  // where the names of the tabs fit on a small screen
  for (QDockWidget* dock : docks()) dock->setVisible(dock != card_ || selection_->expert() >= 0);
  bias_->raise();
  gate_->raise();
  confidence_->raise();
}

void RouterWorkspace::setDefaultSizes() {
  const int card = card_->isVisibleTo(this) && !card_->isFloating()
                       ? std::clamp(static_cast<int>(width() * kCardShare), 280, 420)
                       : 0;
  const int across = width() - card, down = height();
  if (card > 0) resizeDocks({load_, card_}, {across, card}, Qt::Horizontal);
  resizeDocks({load_, bias_}, {down / 2, down / 2}, Qt::Vertical);
  resizeDocks({load_, load_over_time_, layers_}, QList<int>(3, across / 3), Qt::Horizontal);
  resizeDocks({bias_, gate_, confidence_}, QList<int>(3, across / 3), Qt::Horizontal);
}

}  // namespace moescope
