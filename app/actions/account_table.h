// The table of the account of what was read: a row for the names of a log that differ only in their numbers, those that
// are shown first, then those that were left out with the reason.
#pragma once

#include <QTreeWidget>
#include <vector>

#include "core/logs/account.h"

namespace moescope {

class AccountTable : public QTreeWidget {
  Q_OBJECT

 public:
  explicit AccountTable(QWidget* parent = nullptr);
  void showAccount(const ImportAccount& account);
  void chooseFirstQuestion();  // selects the first row that is assumed, cannot be right or is unknown

 signals:
  void chosen(const AccountRow& row);

 private:
  void addRow(const AccountRow& row);
  std::vector<AccountRow> rows_;
};

}  // namespace moescope
