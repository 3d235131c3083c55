// "Train on hosts...": starts the run's settings with mpirun on several machines, attaches the window to it, and says
// what a host reports when it fails.
#pragma once

#include <QObject>
#include <memory>

#include "app/session/host_training.h"

class QAction;
class QMenu;

namespace moescope {

class Messages;
class NoticeBar;
class RunSession;
class SetupForm;

class HostActions : public QObject {
  Q_OBJECT

 public:
  HostActions(RunSession* session, SetupForm* form, NoticeBar* notice, Messages* messages);
  ~HostActions() override;

  void addActionsTo(QMenu* menu);
  void stopNow();  // within the step in flight
  void start(HostPlan plan);

 private:
  void ask();
  void end(bool stopped, const QString& why);

  RunSession* session_;
  SetupForm* form_;
  NoticeBar* notice_;
  Messages* messages_;
  QAction* stop_ = nullptr;
  std::unique_ptr<HostTraining> training_;
};

}  // namespace moescope
