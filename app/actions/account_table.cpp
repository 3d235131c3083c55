#include "app/actions/account_table.h"

#include <QHeaderView>

#include "app/look/grouped.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

enum AccountColumn { kNameColumn, kNames, kValues, kRange, kLast, kTakenFor, kUnit, kBecause, kAccountColumns };

QString becauseText(const AccountRow& row) {
  if (!row.question.empty()) return "is this right? " + QString::fromStdString(row.question);
  if (!row.is_shown) return QString::fromStdString(row.reason);
  const QString certainty = certainty_name(row.certainty);
  return row.program.empty() ? certainty : certainty + ", " + QString::fromStdString(row.program);
}

}  // namespace

AccountTable::AccountTable(QWidget* parent) : QTreeWidget(parent) {
  setObjectName("account_table");
  setAccessibleName("Names in the log, what they were taken for, and why");
  setRootIsDecorated(false);
  setUniformRowHeights(true);
  setColumnCount(kAccountColumns);
  setHeaderLabels({"Name, {...}: a number", "names", "values", "range", "last", "taken for", "unit", "because"});
  header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  // The two columns of long texts share what the others leave, so that none is cut off.
  setTextElideMode(Qt::ElideMiddle);
  for (const int column : {int{kNameColumn}, int{kBecause}})
    header()->setSectionResizeMode(column, QHeaderView::Stretch);
  connect(this, &QTreeWidget::currentItemChanged, this, [this](const QTreeWidgetItem* item) {
    const int row = item ? item->data(kNameColumn, Qt::UserRole).toInt() : -1;
    if (row >= 0) emit chosen(rows_[row]);
  });
}

void AccountTable::addRow(const AccountRow& row) {
  auto* item = new QTreeWidgetItem(this);
  item->setData(kNameColumn, Qt::UserRole, static_cast<int>(rows_.size()));
  item->setText(kNameColumn, QString::fromStdString(row.name));
  item->setText(kNames, grouped(row.names));
  item->setText(kValues, grouped(row.values));
  item->setText(kRange, QString::fromStdString(range_text(row)));
  item->setText(kLast, QString::fromStdString(row.example));
  item->setText(kTakenFor, row.is_shown ? QString::fromStdString(row.meaning) : QString("left out"));
  item->setText(kUnit, QString::fromStdString(row.unit));
  item->setText(kBecause, becauseText(row));
  for (const int column : {int{kNameColumn}, int{kBecause}}) item->setToolTip(column, item->text(column));
  for (const int column : {int{kNames}, int{kValues}, int{kLast}}) item->setTextAlignment(column, Qt::AlignRight);
  const Colors& c = colors(palette());
  for (int column = 0; column < kAccountColumns && !row.is_shown; ++column) item->setForeground(column, QColor(c.ink2));
  if (row.is_to_confirm()) item->setForeground(kBecause, QColor(c.attention));
  rows_.push_back(row);
}

void AccountTable::showAccount(const ImportAccount& account) {
  clear();
  rows_.clear();
  for (const bool is_shown : {true, false})
    for (const AccountRow& row : account.rows)
      if (row.is_shown == is_shown) addRow(row);
  for (const LeftOut& part : account.left_out) {
    auto* item = new QTreeWidgetItem(this);
    item->setData(kNameColumn, Qt::UserRole, -1);
    item->setText(kNameColumn, QString::fromStdString(part.what));
    item->setText(kTakenFor, "left out");
    item->setText(kBecause, QString::fromStdString(part.reason));
    item->setToolTip(kBecause, item->text(kBecause));
  }
}

void AccountTable::chooseFirstQuestion() {
  const auto first = [this](auto holds) {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (holds(rows_[i])) return setCurrentItem(topLevelItem(i)), true;
    return false;
  };
  if (first([](const AccountRow& row) { return row.is_to_confirm(); })) return;
  first([](const AccountRow& row) { return !row.is_shown && row.certainty == Certainty::unknown; });
}

}  // namespace moescope
