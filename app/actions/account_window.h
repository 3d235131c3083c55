// The window "What was read": what each name of the opened logs was taken for, what was left out and why, and how the
// shape of the run was found. The user corrects a row, sees the panels change, and keeps the correction for this log or
// for all logs.
#pragma once

#include <QComboBox>
#include <QDialog>
#include <QLabel>
#include <QTreeWidget>
#include <QWidget>
#include <vector>

#include "core/logs/account.h"
#include "core/logs/import.h"

class QButtonGroup;
class QPushButton;
class QSpinBox;
class QVBoxLayout;

namespace moescope {

class AccountTable;
class ExpertLoadPanel;
class MeaningEditor;
class Selection;

class AccountWindow : public QDialog {
  Q_OBJECT

 public:
  AccountWindow(Selection* selection, QWidget* parent);
  // Shows the accounts of the open logs; the first is chosen. Stated rules stay until other logs are shown.
  void showAccounts(std::vector<ImportAccount> accounts);

 signals:
  // The logs are to be read again with the rules, the newest first, and with stated numbers.
  void stated(const std::string& rules, const RoutedShape& shape);
  void refused(const QString& reason);  // a file could not be written

 private:
  QWidget* makeShape();
  QWidget* makeEditor();
  void showAccount();
  bool hasNewNumber() const;
  void enableButtons();
  void apply();
  void state(const std::string& rule);
  void keep(bool for_all_logs);
  const ImportAccount* account() const;

  std::vector<ImportAccount> accounts_;
  std::string rules_;
  RoutedShape shape_;  // as it was stated last
  QComboBox* logs_;
  QLabel *summary_, *kept_file_;
  AccountTable* table_;
  MeaningEditor* editor_;
  ExpertLoadPanel* preview_;  // of the loads as they are read
  Selection* selection_;
  QPushButton *confirm_, *apply_, *leave_out_;
  QSpinBox *layers_, *experts_, *top_k_;
  std::vector<QLabel*> found_;  // values and sources of steps, layers, experts, top_k, tokens of a step
};

// The table of the account of what was read: a row for the names of a log that differ only in their numbers, those that
// are shown first, then those that were left out with the reason.
class AccountTable : public QTreeWidget {
  Q_OBJECT

 public:
  explicit AccountTable(QWidget* parent = nullptr);
  void showAccount(const ImportAccount& account);
  // Selects the first row that is assumed, cannot be right or is unknown. Returns false if there is none.
  bool chooseFirstQuestion();

 signals:
  void chosen(const AccountRow& row);

 private:
  void addRow(const AccountRow& row);
  std::vector<AccountRow> rows_;
};

// States what the names of a row of the account mean: the figure, which number is the layer and which the expert, and
// the unit of the values. The result is a rule of a mapping file (core/logs/tag_map.h).
class MeaningEditor : public QWidget {
  Q_OBJECT

 public:
  explicit MeaningEditor(QWidget* parent = nullptr);
  void edit(const AccountRow& row);
  void clear();                                   // of no row
  bool isEmpty() const { return name_.empty(); }  // no row was chosen
  bool isEdited() const { return is_edited_; }    // the user changed what the row's names mean
  std::string rule() const;                       // a [[tag]]
  // a [[tag]] with which the names are ignored
  std::string ruleToLeaveOut() const { return tag_rule(pattern(), "ignored"); }

 private:
  void showNumbers();
  void showUnits();
  std::string pattern() const;

  std::string name_;  // of the row: "blk{layer}.e{expert}.frac"
  bool is_edited_ = false;
  QLabel *title_, *evidence_;
  QComboBox* means_;
  QVBoxLayout *numbers_, *units_;
  std::vector<QComboBox*> number_means_;  // in the order of the numbers in the name
  QButtonGroup* unit_;
};

}  // namespace moescope
