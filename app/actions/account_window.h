// The window "What was read": what each name of the opened logs was taken for, what was left out and why, and how the
// shape of the run was found. The user corrects a row, sees the panels change, and keeps the correction for this log or
// for all logs.
#pragma once

#include <QComboBox>
#include <QDialog>
#include <QLabel>
#include <QTreeWidget>
#include <QWidget>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/logs/open_runs.h"

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
  // Shows the accounts of logs that were read with what is `stated`. The selected log and row stay selected.
  void showAccounts(std::vector<ImportAccount> accounts, const StatedLogs& stated);

 signals:
  void stated(const StatedLogs& logs);  // the logs are to be read again
  void refused(const QString& reason);  // a file could not be written

 private:
  QWidget* makeShape();
  QWidget* makeEditor();
  void showAccount(const std::string& name = {});  // of the selected log; selects the row of the name
  void followSelection();
  bool hasNewNumber() const;
  void enableButtons();
  void stageChoice();
  void state(const std::string& rule);
  // Returns what is stated, with the staged choices, the rule and the numbers for this log.
  StatedLogs withRule(const std::string& rule) const;
  void keep(bool for_all_logs);
  const ImportAccount* account() const;

  std::vector<ImportAccount> accounts_;
  StatedLogs stated_;  // as the logs were read
  // Rules of rows whose meaning was chosen but not applied yet, by path of the log and name of the row.
  std::map<std::pair<std::string, std::string>, std::string> staged_;
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
  // Selects the row of the name, else the first that is assumed, cannot be right or is unknown. Returns false if there
  // is none.
  bool choose(const std::string& name);

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
  void edit(const AccountRow& row);  // shows how the row is read
  void clear();                      // of no row
  const std::string& name() const { return name_; }
  bool isEmpty() const { return name_.empty(); }             // no row was chosen
  bool isEdited() const { return rule() != read_as_rule_; }  // the choice differs from how the row is read
  std::string rule() const;                                  // a [[tag]]; empty: not used
  // a [[tag]] with which the names are ignored
  std::string ruleToLeaveOut() const { return tag_rule(pattern(), "ignored"); }

 signals:
  void changed();

 private:
  void showNumbers();
  void showUnits();
  std::string pattern() const;

  std::string name_;                    // of the row: "blk{layer}.e{expert}.frac"
  std::string likely_;                  // `means` of the row as it is read, as is asked, or as loads of its values are
  std::string read_as_, read_as_rule_;  // `means` and the rule of the row as it is read; empty: not used
  QLabel *title_, *evidence_;
  QComboBox* means_;
  QVBoxLayout *numbers_, *units_;
  std::vector<QComboBox*> number_means_;  // in the order of the numbers in the name
  QButtonGroup* unit_;
};

}  // namespace moescope
