// Shows what was read from the opened logs: from the menu, from the status line, and by itself if something is assumed
// or no run could be read. Reads the logs again with what the user states.
#pragma once

#include <vector>

#include "app/actions/actions.h"
#include "core/logs/open_runs.h"

class QMenu;

namespace moescope {

class AccountWindow;
class LiveRuns;
class StatusLine;

class AccountActions : public Actions {
  Q_OBJECT

 public:
  AccountActions(const Context& context, StatusLine* status);

  void addActionsTo(QMenu* menu);
  void showAccount();

 private:
  void onOpened();
  void showStatus();
  void show(std::vector<ImportAccount> accounts, const StatedLogs& stated);

  StatusLine* status_;
  AccountWindow* window_ = nullptr;
  QStringList paths_;                 // of the shown accounts
  const LiveRuns* agreed_ = nullptr;  // training that the user agreed to close for these paths
};

}  // namespace moescope
