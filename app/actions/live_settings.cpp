#include "app/actions/live_settings.h"

#include <QUndoCommand>
#include <QUndoStack>
#include <vector>

#include "app/bars/live_popover.h"
#include "app/docks/actions_dock.h"
#include "app/session/run_session.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "app/workspaces/all_to_all_workspace.h"
#include "app/workspaces/text_workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/config/config_check.h"
#include "core/config/config_difference.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/selection/selection.h"

namespace moescope {

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

void LiveSettings::changeActive(Setting setting, const ConfigValue& value) {
  change(selection_->run(), setting, value);
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
