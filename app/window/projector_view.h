// For a lecturer with a projector: one key makes all type larger, plots included, and shows fewer panels; the same key
// brings everything back as it was. It ends with the program.
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
