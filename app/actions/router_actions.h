// Interventions in the router of the run in training: kill, revive or pin an expert, freeze the router, force its
// balance. Each is a change of a live setting: it gets a marker on the timeline and Ctrl+Z undoes it.
#pragma once

#include <optional>

#include "app/actions/actions.h"
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
  bool killed(int layer, int expert) const;
  std::optional<double> pinned(int layer, int expert) const;
  void kill(int layer, int expert);
  void revive(int layer, int expert);
  void reviveAll();
  void pin(int layer, int expert, double bias);
  void release(int layer, int expert);  // removes the pin of the expert's bias
  void askPin(int layer, int expert);   // asks for a bias; the dialog starts with the present one

 private:
  RunConfig config() const;
  double biasNow(int layer, int expert) const;
  // Calls `act` for the chosen expert, or says that no expert is chosen.
  void withChosen(void (RouterActions::*act)(int layer, int expert));
  void killOrRevive(int layer, int expert);
  void toggle(bool RouterConfig::*flag);
  void connectCard(ExpertPanel* card);
  void showMenuOf(Panel* panel, QPoint global);

  LiveSettings* settings_;
};

}  // namespace moescope
