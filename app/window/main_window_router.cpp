// What the card of an expert can do to the model in training.
#include "app/window/expert_actions.h"
#include "app/window/main_window.h"
#include "app/workspaces/router_workspace.h"
#include "widgets/router/expert_card.h"

namespace moescope {

void MainWindow::connectExpertCard() {
  ExpertCard* card = router_->expertCard();
  card->interventionOf = [this](int layer, int expert) {
    ExpertCard::Intervention now;
    now.possible = expert_actions_->possible(layer, expert);
    if (!now.possible) return now;
    now.killed = expert_actions_->killed(layer, expert);
    now.pinned_bias = expert_actions_->pinned(layer, expert);
    return now;
  };
  connect(card, &ExpertCard::killRequested, this, [this](int layer, int expert, bool kill) {
    kill ? expert_actions_->kill(layer, expert) : expert_actions_->revive(layer, expert);
  });
  connect(card, &ExpertCard::pinRequested, this, [this](int layer, int expert, std::optional<double> bias) {
    bias ? expert_actions_->pin(layer, expert, *bias) : expert_actions_->release(layer, expert);
  });
  connect(&session_, &RunSession::configChanged, card, &ExpertCard::refreshActions);
}

}  // namespace moescope
