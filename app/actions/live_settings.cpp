#include "app/actions/live_settings.h"

#include <QInputDialog>
#include <QMenu>
#include <QUndoCommand>
#include <QUndoStack>
#include <vector>

#include "app/bars/popovers.h"
#include "app/docks/side_docks.h"
#include "app/session/run_session.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

namespace moescope {
namespace {

QString nameOf(int layer, int expert) {
  return QString("expert %1 of layer %2").arg(expert).arg(layer);
}

}  // namespace

RouterActions::RouterActions(const Context& context, LiveSettings* settings) : Actions(context), settings_(settings) {
  connectCard(workspaces_->router()->expertCard());
  for (Workspace* workspace : workspaces_->all())
    for (Panel* panel : workspace->panels()) {
      if (!qobject_cast<ExpertLoadPanel*>(panel)) continue;
      panel->setContextMenuPolicy(Qt::CustomContextMenu);
      connect(panel, &QWidget::customContextMenuRequested, this,
              [this, panel](QPoint at) { showMenuOf(panel, panel->mapToGlobal(at)); });
    }
}

void RouterActions::connectCard(ExpertPanel* card) {
  card->interventionOf = [this](int layer, int expert) {
    ExpertPanel::Intervention intervention;
    intervention.possible = possible(layer, expert);
    if (!intervention.possible) return intervention;
    intervention.killed = killed(layer, expert);
    intervention.pinned_bias = pinned(layer, expert);
    return intervention;
  };
  connect(card, &ExpertPanel::killRequested, this,
          [this](int layer, int expert, bool dead) { dead ? kill(layer, expert) : revive(layer, expert); });
  connect(card, &ExpertPanel::pinRequested, this, [this](int layer, int expert, std::optional<double> bias) {
    bias ? pin(layer, expert, *bias) : release(layer, expert);
  });
  connect(session_, &RunSession::configChanged, card, &ExpertPanel::refreshActions);
}

void RouterActions::addActionsTo(QMenu* menu) {
  QAction* kill = menu->addAction("&Kill or revive the chosen expert", QKeySequence("Ctrl+Shift+E"), this,
                                  [this] { withChosen(&RouterActions::killOrRevive); });
  QAction* pin = menu->addAction("&Pin the bias of the chosen expert...", QKeySequence(Qt::Key_P), this,
                                 [this] { withChosen(&RouterActions::askPin); });
  QAction* revive = menu->addAction("Re&vive all", this, &RouterActions::reviveAll);
  QAction* freeze = menu->addAction("&Freeze the router, or let it learn", QKeySequence("Ctrl+Shift+F"), this,
                                    [this] { toggle(&RouterConfig::frozen); });
  QAction* force = menu->addAction("Force &balance, or let the router choose", this,
                                   [this] { toggle(&RouterConfig::force_balance); });
  connect(menu, &QMenu::aboutToShow, this, [this, kill, pin] {
    const int layer = selection_->layer(), expert = selection_->expert();
    const bool can = possible(layer, expert);
    const QString name = can ? nameOf(layer, expert) : QString("the chosen expert");
    kill->setText((can && killed(layer, expert) ? "&Revive " : "&Kill ") + name);
    pin->setText("&Pin the bias of " + name + "...");
    QString reason = session_->isLive() ? "Choose an expert first: click one in a load panel" : kNothingTrains;
    if (can) reason.clear();
    for (QAction* action : {kill, pin}) {
      action->setEnabled(can);
      action->setToolTip(reason);
    }
  });
  enableWhenClosed(menu, {kill, pin});
  offWithoutTraining(menu, {revive, freeze, force});
}

void RouterActions::withChosen(void (RouterActions::*act)(int layer, int expert)) {
  const int layer = selection_->layer(), expert = selection_->expert();
  if (!possible(layer, expert))
    return messages_->say("Choose an expert of a model in training first: click one in a load panel", 6000);
  (this->*act)(layer, expert);
}

void RouterActions::toggle(bool RouterConfig::*flag) {
  if (!session_->isLive()) return messages_->say(kNothingTrains, 6000);
  settings_->changeActive(flag, !(config().router.*flag));
}

// Opens the menu for the expert under the mouse, or for the chosen expert if there is none under the mouse.
void RouterActions::showMenuOf(Panel* panel, QPoint global) {
  const auto figure = panel->figureUnder(global);
  const int layer = figure ? figure->layer : selection_->layer(),
            expert = figure ? figure->expert : selection_->expert();
  QMenu menu(messages_->window());
  menu.addAction("&Explain", this, [panel, global] { panel->explainAt(global); });
  menu.addSeparator();
  if (expert < 0)
    menu.addAction("Click an expert first: its actions appear here")->setEnabled(false);
  else
    addActionsTo(&menu, layer, expert);
  menu.exec(global);
}

bool RouterActions::possible(int layer, int expert) const {
  if (!session_->isLive()) return false;
  const ModelConfig model = config().model;
  return layer >= model.n_dense_layers && layer < model.n_layers && expert >= 0 && expert < model.n_experts;
}

std::optional<double> RouterActions::listed(List list, int layer, int expert) const {
  const RunConfig current = config();
  const ExpertValues experts = parse_experts(current.router.*list.setting, current.model, list.values);
  const auto found = experts.find({layer, expert});
  return found == experts.end() ? std::nullopt : std::optional(found->second);
}

void RouterActions::addActionsTo(QMenu* menu, int layer, int expert) {
  if (!possible(layer, expert)) {
    menu->addAction("Actions need a model in training")->setEnabled(false);
    return;
  }
  const QString name = nameOf(layer, expert);
  menu->setToolTipsVisible(true);
  if (killed(layer, expert))
    menu->addAction("&Revive " + name, this, [=, this] { revive(layer, expert); })
        ->setToolTip("The router can choose this expert again from the next step on");
  else
    menu->addAction("&Kill " + name, this, [=, this] { kill(layer, expert); })
        ->setToolTip("The router no longer chooses this expert from the next step on; its weights are kept");
  menu->addAction("&Pin the bias of " + name + "...", this, [=, this] { askPin(layer, expert); })
      ->setToolTip("Hold expert_bias at a value: a positive one brings tokens, a negative one keeps them away");
  if (const auto bias = pinned(layer, expert))
    menu->addAction(QString("Re&lease the bias (pinned at %1)").arg(*bias), this,
                    [=, this] { release(layer, expert); });
}

void RouterActions::setListed(List list, int layer, int expert, std::optional<double> value) {
  if (!possible(layer, expert)) return;
  const RunConfig current = config();
  ExpertValues experts = parse_experts(current.router.*list.setting, current.model, list.values);
  if (value)
    experts[{layer, expert}] = *value;
  else
    experts.erase({layer, expert});
  settings_->changeActive(list.setting, experts_text(experts, current.model, list.values));
}

void RouterActions::reviveAll() {
  if (!session_->isLive()) return messages_->say(kNothingTrains, 6000);
  settings_->changeActive(&RouterConfig::killed_experts, std::string());
}

double RouterActions::biasNow(int layer, int expert) const {
  if (const auto bias = pinned(layer, expert)) return *bias;
  if (const auto frame = selection_->frame())
    for (const RouterFrame& router : frame->routers)
      if (router.layer == layer && static_cast<std::size_t>(expert) < router.expert_bias.size())
        return router.expert_bias[expert];
  return 0;
}

void RouterActions::askPin(int layer, int expert) {
  if (!possible(layer, expert)) return;
  bool is_entered = false;
  const double bias =
      QInputDialog::getDouble(messages_->window(), "Pin a bias",
                              "Hold expert_bias of " + nameOf(layer, expert) + " at:", biasNow(layer, expert), -1000,
                              1000, 4, &is_entered, {}, 0.1);
  if (is_entered) pin(layer, expert, bias);
}

namespace {

// A change of a live setting and of those that follow it. Undo makes reverse changes, each with a mark on the timeline.
class LiveChangeCommand : public QUndoCommand {
 public:
  LiveChangeCommand(RunSession* session, int run, Setting setting, const RunConfig& before, ConfigValue to)
      : session_(session), change_{.run = run, .setting = setting, .value = std::move(to)} {
    RunConfig after = before;
    setting.field().set(after, change_.value);
    for (const ConfigDifference& changed : difference(before, after))
      before_.push_back({.run = run, .setting = changed.setting, .value = changed.setting.field().get(before)});
    const std::string from = setting.field().derived ? "" : " " + to_string(setting.field().get(before));
    setText(QString::fromStdString(setting.key() + from + " to " + to_string(change_.value)));
  }

  // Makes the reverse changes. One may be valid only after another, so the refused ones are tried again until all or
  // none of them are refused. If some are still refused (top_k after another change of the groups), the command is
  // removed from the stack.
  void undo() override {
    std::vector<LiveChange> remaining = before_;
    for (std::size_t refused = remaining.size() + 1; !remaining.empty() && remaining.size() < refused;) {
      refused = remaining.size();
      std::erase_if(remaining, [this](const LiveChange& change) { return session_->change(change).isEmpty(); });
    }
    if (!remaining.empty()) setObsolete(true);
  }
  void redo() override {
    if (!session_->change(change_).isEmpty()) setObsolete(true);
  }

 private:
  RunSession* session_;
  LiveChange change_;
  std::vector<LiveChange> before_;
};

class PlacementCommand : public QUndoCommand {
 public:
  PlacementCommand(ExpertPlacementPanel* panel, QString from, QString to)
      : QUndoCommand("expert placement"), panel_(panel), from_(std::move(from)), to_(std::move(to)) {}
  void undo() override { panel_->setAsked(from_); }
  void redo() override { panel_->setAsked(to_); }

 private:
  ExpertPlacementPanel* panel_;
  QString from_, to_;
};

}  // namespace

LiveSettings::LiveSettings(const Context& context, QUndoStack* undo, SetupForm* form, LivePopover* popover,
                           ActionsDock* dock)
    : Actions(context), undo_(undo), form_(form), popover_(popover), dock_(dock) {
  connect(form_, &SetupForm::liveChangeRequested, this, &LiveSettings::changeActive);
  connect(popover_, &LivePopover::changeRequested, this, &LiveSettings::changeActive);
  connect(popover_, &LivePopover::undoRequested, undo_, &QUndoStack::undo);
  connect(popover_, &LivePopover::redoRequested, undo_, &QUndoStack::redo);
  connect(dock_, &ActionsDock::changeRequested, this, &LiveSettings::changeActive);
  connect(workspaces_->text(), &TextWorkspace::probeWanted, this,
          [this](const QString& escaped) { changeActive(&TelemetryConfig::probe, escaped.toStdString()); });
  connect(workspaces_->allToAll()->placement(), &ExpertPlacementPanel::placementRequested, this,
          &LiveSettings::placeExperts);
}

void LiveSettings::show() {
  const auto& histories = session_->histories();
  popover_->showRun(histories.size() > 1 ? runLetter(*selection_, selection_->run()) : QString());
  if (histories.empty()) return;
  const RunConfig config = session_->config(selection_->run());
  const RunConfig* known = session_->hasConfig() ? &config : nullptr;
  const bool live = session_->isLive();
  popover_->showConfig(known, live);
  dock_->showDomains(histories.front()->info().domains);
  dock_->showConfig(known, live);
  form_->setOpenRun(live ? known : nullptr);
  form_->setPurpose(live ? QString("run %1, in training").arg(runLetter(*selection_, selection_->run()))
                         : QString("settings for a new run"));
  workspaces_->text()->setLive(live);
  ExpertPlacementPanel* placement = workspaces_->allToAll()->placement();
  placement->setLive(live);
  placement->setAsked(live ? QString::fromStdString(config.parallel.placement) : QString());
}

void LiveSettings::change(int place, Setting setting, const ConfigValue& value) {
  const ConfigField& field = setting.field();
  if (!session_->isLive() || place >= to_int(session_->histories().size())) return;
  RunConfig changed = session_->config(place);
  if (field.get(changed) == value) return;
  const RunConfig previous = changed;
  field.set(changed, value);
  if (difference(previous, changed).empty()) return;  // for example the choice "own", which changes nothing
  if (const QString problem = QString::fromStdString(first_problem(changed)); !problem.isEmpty()) {
    popover_->showProblem(problem);
    return dock_->showProblem(problem);
  }
  undo_->push(new LiveChangeCommand(session_, session_->runAt(place), setting, previous, value));
}

void LiveSettings::focus(const QString& key) {
  const ConfigField* field = find_field(key.toStdString());
  if (!field) return;
  FieldEditor* editor = popover_->editor(*field);
  if (editor && editor->isEnabled()) {
    emit popoverWanted();
    return editor->setFocus(Qt::ShortcutFocusReason);
  }
  emit formWanted();
  form_->showField(key.toStdString());
}

void LiveSettings::placeExperts(const QString& placement) {
  if (session_->isLive()) return changeActive(&ParallelConfig::placement, placement.toStdString());
  ExpertPlacementPanel* panel = workspaces_->allToAll()->placement();
  if (placement != panel->shown()) undo_->push(new PlacementCommand(panel, panel->shown(), placement));
}

}  // namespace moescope
