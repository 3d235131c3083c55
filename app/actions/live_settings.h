// Shows the settings of the active run in every bar, and changes them while the run trains. Each change puts a mark on
// the timeline and can be undone. An expert placement that is tried out on a recording can be undone as well.
#pragma once

#include <QString>
#include <optional>

#include "app/actions/actions.h"
#include "core/config/config_field.h"
#include "core/config/expert_list.h"
#include "core/config/run_config.h"

class QUndoStack;

namespace moescope {

class ActionsDock;
class ExpertPanel;
class LivePopover;
class SetupForm;

class LiveSettings : public Actions {
  Q_OBJECT

 public:
  LiveSettings(const Context& context, QUndoStack* undo, SetupForm* form, LivePopover* popover, ActionsDock* dock);

  void show();                                                        // shows the settings of the active run
  void change(int place, Setting setting, const ConfigValue& value);  // changes a setting of the run at `place`
  void changeActive(Setting setting, const ConfigValue& value) { change(selection_->run(), setting, value); }
  void focus(const QString& key);  // shows the setting in the live popover if it is live, else in the form

 signals:
  void formWanted();     // the set-up form should be shown
  void popoverWanted();  // the live popover should be shown

 private:
  void placeExperts(const QString& placement);

  QUndoStack* undo_;
  SetupForm* form_;
  LivePopover* popover_;
  ActionsDock* dock_;
};

// Interventions in the router of the run in training: kill, revive or pin an expert, freeze the router, force its
// balance. Each is a change of a live setting: it puts a mark on the timeline, and Ctrl+Z undoes it.
class RouterActions : public Actions {
  Q_OBJECT

 public:
  // `settings` makes the changes. Also connects the buttons of the expert panel and the menus of the load panels.
  RouterActions(const Context& context, LiveSettings* settings);

  void addActionsTo(QMenu* menu);  // adds the entries for the chosen expert
  void addActionsTo(QMenu* menu, int layer, int expert);
  bool possible(int layer, int expert) const;  // whether this expert exists and its run trains
  bool killed(int layer, int expert) const { return listed(kKilled, layer, expert).has_value(); }
  std::optional<double> pinned(int layer, int expert) const { return listed(kPinned, layer, expert); }
  void kill(int layer, int expert) { setListed(kKilled, layer, expert, 0); }
  void revive(int layer, int expert) { setListed(kKilled, layer, expert, {}); }
  void reviveAll();
  void pin(int layer, int expert, double bias) { setListed(kPinned, layer, expert, bias); }
  void release(int layer, int expert) { setListed(kPinned, layer, expert, {}); }  // removes the pin
  void askPin(int layer, int expert);  // asks for a bias; the dialog starts with the present bias

 private:
  // A setting that lists experts.
  struct List {
    std::string RouterConfig::*setting;
    ListOf values;
  };
  static constexpr List kKilled{&RouterConfig::killed_experts, ListOf::experts};
  static constexpr List kPinned{&RouterConfig::pinned_bias, ListOf::values};
  std::optional<double> listed(List list, int layer, int expert) const;  // nullopt: the expert is not in the list
  void setListed(List list, int layer, int expert, std::optional<double> value);  // nullopt: removes the expert

  RunConfig config() const { return session_->config(selection_->run()); }
  double biasNow(int layer, int expert) const;
  // Calls `act` for the chosen expert, or says that no expert is chosen.
  void withChosen(void (RouterActions::*act)(int layer, int expert));
  void killOrRevive(int layer, int expert) { killed(layer, expert) ? revive(layer, expert) : kill(layer, expert); }
  void toggle(bool RouterConfig::*flag);
  void connectCard(ExpertPanel* card);
  void showMenuOf(Panel* panel, QPoint global);

  LiveSettings* settings_;
};

}  // namespace moescope
