// The base class of all actions of the window, one subclass for each subject.
#pragma once

#include <QWidget>

#include "app/look/messages.h"

class QAction;
class QMenu;

namespace moescope {

class RunSession;
class Selection;
class WorkspaceTabs;

class Actions : public QObject {
 public:
  // All parts of one window.
  struct Context {
    RunSession* session;
    Selection* selection;
    WorkspaceTabs* workspaces;
    Messages* messages;
  };

 protected:
  explicit Actions(const Context& context)  // a child of the window
      : QObject(context.messages->window()),
        session_(context.session),
        selection_(context.selection),
        workspaces_(context.workspaces),
        messages_(context.messages) {}

  // Path of a new recording of this name (app/session/settings.h); empty: nothing can be written there, so the run is
  // in memory only, and a message says so.
  QString recordingPlace(const QString& name);
  // Enables entries again when their menu closes, which it disabled when it opened: a disabled entry would disable its
  // key, which then could not say what is missing.
  void enableWhenClosed(QMenu* menu, const QList<QAction*>& actions);
  // Disables menu entries that act on a run in training while their menu is open and nothing trains, with the reason as
  // tool tip.
  void offWithoutTraining(QMenu* menu, const QList<QAction*>& actions);

  RunSession* session_;
  Selection* selection_;
  WorkspaceTabs* workspaces_;
  Messages* messages_;
};

}  // namespace moescope
