// Set-ups as short texts (core/config/setup_link.h): copied from the open runs, and opened again.
#pragma once

#include <QString>
#include <optional>

#include "app/actions/actions.h"
#include "core/config/setup_link.h"

class QMenu;

namespace moescope {

class RunControl;

// The open runs with what is looked at: settings as they are now, of a recording those at its start; nothing: they are
// not known.
std::optional<SharedSetup> sharedSetup(const RunSession& session, const Selection& selection,
                                       const WorkspaceTabs& workspaces);

class SetupLinks : public Actions {
  Q_OBJECT

 public:
  SetupLinks(const Context& context, RunControl* control);

  void addActionsTo(QMenu* menu);
  // Trains these runs up to its step; what cannot be read is told.
  void open(const QString& link);

 private:
  void copy();
  void paste();
  void showOpened();  // what the link looks at

  RunControl* control_;
  std::optional<SharedSetup> wanted_;  // of which the runs are being opened
  bool began_ = false;                 // an opening, since a link was asked for
};

}  // namespace moescope
