// Copies the set-up of the open runs as a short text (core/config/setup_link.h), and opens such texts.
#pragma once

#include <QString>
#include <optional>

#include "app/actions/actions.h"
#include "core/config/setup_link.h"

class QMenu;

namespace moescope {

class RunControl;

// Returns the settings of the open runs, present ones of runs in training and initial ones of a recording, and the
// view; nullopt if the settings are not known.
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
  void showOpened();  // selects the layer, expert and panel that the link names

  RunControl* control_;
  std::optional<SharedSetup> wanted_;  // the set-up whose runs are being opened
  bool began_ = false;                 // whether opening has begun since open()
};

}  // namespace moescope
