#include "app/actions/account_actions.h"

#include <QAction>
#include <QMenu>
#include <algorithm>

#include "app/actions/account_window.h"
#include "app/bars/status_line.h"
#include "app/session/run_session.h"

namespace moescope {

AccountActions::AccountActions(const Context& context, StatusLine* status) : Actions(context), status_(status) {
  connect(session_, &RunSession::opened, this, &AccountActions::onOpened);
  connect(session_, &RunSession::runsChanged, this, &AccountActions::showStatus);
  connect(session_, &RunSession::meaningWanted, this, [this](const QStringList& paths, const ImportAccount& account) {
    paths_ = paths;
    show({account});
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
  if (accounts.empty()) return messages_->say("What was read is known for logs of other programs only");
  paths_ = session_->paths();
  show(std::move(accounts));
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
  for (const ImportAccount& account : session_->accounts()) {
    to_confirm += account.to_confirm();
    for (const AccountRow& row : account.rows)
      if (!row.is_shown && row.certainty == Certainty::unknown) left_out += row.names;
  }
  status_->showAccount(to_confirm, left_out, !session_->accounts().empty());
}

void AccountActions::show(std::vector<ImportAccount> accounts) {
  if (!window_) {
    window_ = new AccountWindow(selection_, messages_->window());
    connect(window_, &AccountWindow::refused, messages_, &Messages::warn);
    connect(window_, &AccountWindow::stated, this,
            [this](const std::string& rules, const RoutedShape& shape) { session_->openStated(paths_, rules, shape); });
  }
  window_->showAccounts(std::move(accounts));
  window_->show();
  window_->raise();
}

}  // namespace moescope
