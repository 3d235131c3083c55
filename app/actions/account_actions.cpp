#include "app/actions/account_actions.h"

#include <QAction>
#include <QMenu>
#include <algorithm>

#include "app/actions/account_window.h"
#include "app/actions/close_question.h"
#include "app/bars/status_line.h"
#include "app/session/run_session.h"
#include "core/numerics/index.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

AccountActions::AccountActions(const Context& context, StatusLine* status) : Actions(context), status_(status) {
  connect(session_, &RunSession::opened, this, &AccountActions::onOpened);
  connect(session_, &RunSession::runsChanged, this, &AccountActions::showStatus);
  connect(session_, &RunSession::meaningWanted, this,
          [this](const QStringList& paths, const ImportAccount& account, const StatedLogs& stated) {
            paths_ = paths;
            agreed_ = session_->live();
            show({account}, stated);
          });
  connect(status_, &StatusLine::accountClicked, this, &AccountActions::showAccount);
}

void AccountActions::addActionsTo(QMenu* menu) {
  QAction* read = menu->addAction("&What was read...", this, &AccountActions::showAccount);
  connect(menu, &QMenu::aboutToShow, this, [this, read] { read->setEnabled(!session_->accounts().empty()); });
  enableWhenClosed(menu, {read});
}

void AccountActions::showAccount() {
  std::vector<ImportAccount> accounts = session_->accounts();
  if (accounts.empty())
    return messages_->say("What was read lists the names in a log of another program: open such a log first");
  paths_ = session_->paths();
  show(std::move(accounts), session_->stated());
}

void AccountActions::onOpened() {
  showStatus();
  const std::vector<ImportAccount> accounts = session_->accounts();
  if (accounts.empty()) {
    if (window_) window_->hide();
  } else if ((window_ && window_->isVisible()) || std::ranges::any_of(accounts, &ImportAccount::to_confirm)) {
    showAccount();
  }
}

void AccountActions::showStatus() {
  qsizetype to_confirm = 0, left_out = 0;
  const std::vector<ImportAccount> accounts = session_->accounts();
  const bool one_for_each_run = accounts.size() > 1 && accounts.size() == session_->histories().size();
  QStringList by_run;
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    to_confirm += accounts[i].to_confirm();
    qsizetype of_log = 0;
    for (const AccountRow& row : accounts[i].rows)
      if (!row.is_shown && row.certainty == Certainty::unknown) of_log += row.names;
    left_out += of_log;
    if (one_for_each_run && of_log > 0)
      by_run << QString("%1 %2").arg(runLetter(*selection_, static_cast<int>(i)), formatCount(of_log));
  }
  status_->showAccount(to_int(to_confirm), to_int(left_out), !accounts.empty(), by_run.join(", "));
}

void AccountActions::show(std::vector<ImportAccount> accounts, const StatedLogs& stated) {
  if (!window_) {
    window_ = new AccountWindow(selection_, messages_->window());
    connect(window_, &AccountWindow::refused, messages_, &Messages::warn);
    connect(window_, &AccountWindow::stated, this, [this](const StatedLogs& logs) {
      const auto open = [this, logs] { session_->openStated(paths_, logs); };
      if (agreed_ == session_->live()) return open();  // nothing is open but the logs, or the user agreed before
      askToCloseTraining(*session_, *selection_, messages_->window(), open);
    });
  }
  window_->showAccounts(std::move(accounts), stated);
  window_->show();
  window_->raise();
}

}  // namespace moescope
