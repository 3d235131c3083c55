// "Train on hosts...": starts a run with the present settings on several machines by mpirun, attaches the window to it,
// and shows what a host reports when it fails.
#pragma once

#include <memory>

#include "app/actions/actions.h"
#include "app/session/host_training.h"

class QAction;
class QMenu;

namespace moescope {

class NoticeBar;
class SetupForm;

class HostActions : public Actions {
  Q_OBJECT

 public:
  HostActions(const Context& context, SetupForm* form, NoticeBar* notice);

  void addActionsTo(QMenu* menu);
  void stopNow();  // stops the training after the current step, and waits for it
  void start(HostPlan plan);

 private:
  void ask();
  void end(bool stopped, const QString& why);

  SetupForm* form_;
  NoticeBar* notice_;
  QAction* stop_ = nullptr;
  std::unique_ptr<HostTraining> training_;
};

}  // namespace moescope
