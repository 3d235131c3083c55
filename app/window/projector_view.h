// A view for projectors: one key enlarges all text, also in plots, and shows fewer panels. The same key restores the
// view. The view is not stored between sessions.
#pragma once

#include <QAction>
#include <QObject>

class QMainWindow;

namespace moescope {

class Messages;
class WindowLayout;

class ProjectorView : public QObject {
 public:
  ProjectorView(WindowLayout* layout, Messages* messages, QMainWindow* window);

  QAction* action() const { return action_; }  // checkable
  void leave() { action_->setChecked(false); }

 private:
  void show(bool projected);

  WindowLayout* layout_;
  Messages* messages_;
  QMainWindow* window_;
  QAction* action_;
};

}  // namespace moescope
