// Copies the set-up of the open runs as a short text (core/config/setup_link.h), and opens such texts.
#pragma once

#include <QString>
#include <optional>

#include "app/actions/actions.h"
#include "core/config/setup_link.h"

class QMenu;

namespace moescope {

class RunControl;

// Returns the settings of the open runs and the view; nullopt if the settings are not known. For runs in training these
// are the present settings, for a recording the initial ones.
std::optional<SharedSetup> sharedSetup(const RunSession& session, const Selection& selection,
                                       const WorkspaceTabs& workspaces);

class SetupLinks : public Actions {
  Q_OBJECT

 public:
  SetupLinks(const Context& context, RunControl* control);

  void addActionsTo(QMenu* menu);
  // Trains the runs of the link up to its step. Shows a message if the link cannot be read.
  void open(const QString& link);

 private:
  void copy();
  void paste();
  void showOpened();  // shows the workspace, run, layer, expert and step of the link

  RunControl* control_;
  std::optional<SharedSetup> opening_setup_;  // the set-up whose runs are being opened
  bool began_ = false;                        // whether RunSession began to open runs since open() was called
};

}  // namespace moescope
