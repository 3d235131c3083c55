#include "app/window/expert_actions.h"

#include <QInputDialog>
#include <QMenu>

#include "app/session/run_session.h"
#include "core/config/expert_list.h"
#include "widgets/selection/selection.h"

namespace moescope {

namespace {

constexpr const char* kKilled = "router.killed_experts";
constexpr const char* kPinned = "router.pinned_bias";

QString nameOf(int layer, int expert) {
  return QString("expert %1 of layer %2").arg(expert).arg(layer);
}

}  // namespace

ExpertActions::ExpertActions(RunSession* session, Selection* selection, QWidget* window)
    : QObject(window), session_(session), selection_(selection), window_(window) {}

RunConfig ExpertActions::config() const {
  return session_->config(selection_->run());
}

bool ExpertActions::possible(int layer, int expert) const {
  if (!session_->isLive()) return false;
  const ModelConfig model = config().model;
  return layer >= model.n_dense_layers && layer < model.n_layers && expert >= 0 && expert < model.n_experts;
}

bool ExpertActions::killed(int layer, int expert) const {
  const RunConfig now = config();
  return parse_experts(now.router.killed_experts, now.model, ListOf::experts).count({layer, expert}) > 0;
}

std::optional<double> ExpertActions::pinned(int layer, int expert) const {
  const RunConfig now = config();
  const ExpertValues pins = parse_experts(now.router.pinned_bias, now.model, ListOf::values);
  const auto found = pins.find({layer, expert});
  return found == pins.end() ? std::nullopt : std::optional(found->second);
}

void ExpertActions::fillMenu(QMenu* menu, int layer, int expert) {
  if (!possible(layer, expert)) {
    menu->addAction("Only experts of a model in training can be acted on")->setEnabled(false);
    return;
  }
  const QString name = nameOf(layer, expert);
  menu->setToolTipsVisible(true);
  if (killed(layer, expert))
    menu->addAction("&Revive " + name, this, [=, this] { revive(layer, expert); })
        ->setToolTip("It can be chosen again from the next step on");
  else
    menu->addAction("&Kill " + name, this, [=, this] { kill(layer, expert); })
        ->setToolTip("It cannot be chosen from the next step on; its weights stay");
  menu->addAction("&Pin the bias of " + name + "...", this, [=, this] { askPin(layer, expert); })
      ->setToolTip("Hold expert_bias at a value: positive draws tokens, negative turns them away");
  if (const auto bias = pinned(layer, expert))
    menu->addAction(QString("&Let the bias go (pinned at %1)").arg(*bias), this, [=, this] { release(layer, expert); });
}

void ExpertActions::kill(int layer, int expert) {
  if (!possible(layer, expert)) return;
  const RunConfig now = config();
  ExpertValues experts = parse_experts(now.router.killed_experts, now.model, ListOf::experts);
  experts[{layer, expert}] = 0;
  emit changeRequested(kKilled, experts_text(experts, now.model, ListOf::experts));
}

void ExpertActions::revive(int layer, int expert) {
  if (!possible(layer, expert)) return;
  const RunConfig now = config();
  ExpertValues experts = parse_experts(now.router.killed_experts, now.model, ListOf::experts);
  experts.erase({layer, expert});
  emit changeRequested(kKilled, experts_text(experts, now.model, ListOf::experts));
}

void ExpertActions::reviveAll() {
  if (session_->isLive()) emit changeRequested(kKilled, std::string());
}

void ExpertActions::pin(int layer, int expert, double bias) {
  if (!possible(layer, expert)) return;
  const RunConfig now = config();
  ExpertValues pins = parse_experts(now.router.pinned_bias, now.model, ListOf::values);
  pins[{layer, expert}] = bias;
  emit changeRequested(kPinned, experts_text(pins, now.model, ListOf::values));
}

void ExpertActions::release(int layer, int expert) {
  if (!possible(layer, expert)) return;
  const RunConfig now = config();
  ExpertValues pins = parse_experts(now.router.pinned_bias, now.model, ListOf::values);
  pins.erase({layer, expert});
  emit changeRequested(kPinned, experts_text(pins, now.model, ListOf::values));
}

double ExpertActions::biasNow(int layer, int expert) const {
  if (const auto bias = pinned(layer, expert)) return *bias;
  if (const auto frame = selection_->frame())
    for (const RouterFrame& router : frame->routers)
      if (router.layer == layer && static_cast<std::size_t>(expert) < router.expert_bias.size())
        return static_cast<double>(router.expert_bias[static_cast<std::size_t>(expert)]);
  return 0;
}

void ExpertActions::askPin(int layer, int expert) {
  if (!possible(layer, expert)) return;
  bool given = false;
  const double bias = QInputDialog::getDouble(
      window_, "Pin a bias", "Hold expert_bias of " + nameOf(layer, expert) + " at:", biasNow(layer, expert), -1000,
      1000, 4, &given, {}, 0.1);
  if (given) pin(layer, expert, bias);
}

}  // namespace moescope
