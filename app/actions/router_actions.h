// Interventions in the router of the run in training: kill, revive or pin an expert, freeze the router, force its
// balance. Each is a change of a live setting: it puts a mark on the timeline, and Ctrl+Z undoes it.
#pragma once

#include <optional>

#include "app/actions/actions.h"
#include "core/config/expert_list.h"
#include "core/config/run_config.h"

class QMenu;

namespace moescope {

class ExpertPanel;
class LiveSettings;
class Panel;

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

  RunConfig config() const;
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
