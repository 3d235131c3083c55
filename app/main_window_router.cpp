// What the card of an expert can do to the model in training: lists of experts in the config, changed live.
#include "app/main_window.h"
#include "app/router_workspace.h"
#include "core/expert_list.h"
#include "widgets/expert_card.h"

namespace moescope {

void MainWindow::connectExpertCard() {
  ExpertCard* card = router_->expertCard();
  card->interventionOf = [this](int layer, int expert) {
    ExpertCard::Intervention now;
    if (!session_.isLive()) return now;
    const RunConfig config = session_.config(selection_.run());
    now.possible = true;
    now.killed = parse_experts(config.router.killed_experts, config.model, ListOf::experts).contains({layer, expert});
    const auto pinned = parse_experts(config.router.pinned_bias, config.model, ListOf::values);
    if (const auto found = pinned.find({layer, expert}); found != pinned.end()) now.pinned_bias = found->second;
    return now;
  };
  connect(card, &ExpertCard::killRequested, this, [this](int layer, int expert, bool kill) {
    const RunConfig config = session_.config(selection_.run());
    ExpertValues killed = parse_experts(config.router.killed_experts, config.model, ListOf::experts);
    if (kill)
      killed[{layer, expert}] = 0;
    else
      killed.erase({layer, expert});
    requestChange("router.killed_experts", experts_text(killed, config.model, ListOf::experts));
  });
  connect(card, &ExpertCard::pinRequested, this, [this](int layer, int expert, std::optional<double> bias) {
    const RunConfig config = session_.config(selection_.run());
    ExpertValues pinned = parse_experts(config.router.pinned_bias, config.model, ListOf::values);
    if (bias)
      pinned[{layer, expert}] = *bias;
    else
      pinned.erase({layer, expert});
    requestChange("router.pinned_bias", experts_text(pinned, config.model, ListOf::values));
  });
  connect(&session_, &RunSession::configChanged, card, &ExpertCard::refreshActions);
}

}  // namespace moescope
