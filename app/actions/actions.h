// The base class of all actions of the window, one subclass for each subject.
#pragma once

#include <QWidget>

#include "app/look/messages.h"

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

  RunSession* session_;
  Selection* selection_;
  WorkspaceTabs* workspaces_;
  Messages* messages_;
};

}  // namespace moescope
