// Where the docks of the window and of each workspace stand: the default, the person's own, which is kept from one
// start to the next, and a lesson's for as long as it lasts.
#pragma once

#include <QDockWidget>
#include <QMainWindow>
#include <QObject>
#include <QTimer>
#include <QVariantMap>

namespace moescope {

class WorkspaceTabs;

class WindowLayout : public QObject {
  Q_OBJECT

 public:
  static constexpr int kSaveEveryMs = 5000;
  WindowLayout(QMainWindow* window, WorkspaceTabs* workspaces, QDockWidget* form_dock);

  // Takes over what was kept, and from now on keeps each change, so that a crash does not cost it.
  void restore();
  void save() const;
  void saveIfChanged();  // not while a lesson arranges the window
  void setDefault();
  void setDefaultIfNothingWasKept();

  // Between the two, all that is arranged belongs to a lesson; the second brings back what was there before.
  void lendToLesson();
  void takeBack();

 private:
  QVariantMap now() const;
  void fitScreen();

  QMainWindow* window_;
  WorkspaceTabs* workspaces_;
  QDockWidget* form_dock_;
  QTimer timer_;
  bool arranged_ = false, lent_ = false;
  QVariantMap saved_, own_;  // own_: the person's, while a lesson has the window
};

}  // namespace moescope
