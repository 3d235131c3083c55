// Base class of the actions of a window. Each subject has its own subclass.
#pragma once

#include <QMenu>
#include <QWidget>

#include "app/look/messages.h"
#include "app/session/run_session.h"
#include "app/workspaces/workspace_tabs.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

class Actions : public QObject {
 public:
  // Parts of one window that every subclass uses.
  struct Context {
    RunSession* session;
    Selection* selection;
    WorkspaceTabs* workspaces;
    Messages* messages;
  };

 protected:
  explicit Actions(const Context& context)  // becomes a child of the window
      : QObject(context.messages->window()),
        session_(context.session),
        selection_(context.selection),
        workspaces_(context.workspaces),
        messages_(context.messages) {}

  // Returns the path of a new recording of this name (app/session/settings.h). If no file can be written there, returns
  // an empty path and shows a message that the run is in memory only.
  QString recordingPlace(const QString& name);
  // Enables `actions` whenever `menu` closes. Entries may be disabled only while their menu is open: the key of a
  // disabled entry does nothing, so it could not show a message that says what is missing.
  void enableWhenClosed(QMenu* menu, const QList<QAction*>& actions);
  // Whenever `menu` opens while no run trains, disables `actions`, which act on a run in training, and shows the reason
  // as tool tip.
  void offWithoutTraining(QMenu* menu, const QList<QAction*>& actions);

  RunSession* session_;
  Selection* selection_;
  WorkspaceTabs* workspaces_;
  Messages* messages_;
};

}  // namespace moescope
