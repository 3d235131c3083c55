// What a person can do to the experts and the router of the run on screen: kill an expert, revive it, pin its bias;
// freeze the router or force its balance. Each is a change of a live setting like any other: marked on the timeline,
// undone with Ctrl+Z.
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
  // Serves the expert's card and the menus of the panels of loads, too.
  RouterActions(const Context& context, LiveSettings* settings);

  void addActionsTo(QMenu* menu);  // about the chosen expert
  void addActionsTo(QMenu* menu, int layer, int expert);
  bool possible(int layer, int expert) const;  // there is such an expert, in training
  bool killed(int layer, int expert) const;
  std::optional<double> pinned(int layer, int expert) const;
  void kill(int layer, int expert);
  void revive(int layer, int expert);
  void reviveAll();
  void pin(int layer, int expert, double bias);
  void release(int layer, int expert);  // of its pin
  void askPin(int layer, int expert);   // starts from the bias that it has

 private:
  RunConfig config() const;
  double biasNow(int layer, int expert) const;
  // Does it to the chosen expert, or says that none is chosen.
  void withChosen(void (RouterActions::*act)(int layer, int expert));
  void killOrRevive(int layer, int expert);
  void toggle(bool RouterConfig::*flag);
  void connectCard(ExpertPanel* card);
  void showMenuOf(Panel* panel, QPoint global);

  LiveSettings* settings_;
};

}  // namespace moescope
