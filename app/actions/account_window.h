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
  void showAccount(const std::string& name = {},
                   bool keeps_numbers = false);  // of the selected log; selects the row of the name
  void followSelection();
  bool hasNewNumber() const;
  void enableButtons();
  void stageChoice();
  const StatedName* staged(const std::string& name) const;  // nullptr: nothing was proposed or chosen
  int pending() const;                                      // names with a meaning that is not applied yet
  // Returns what is stated, with the staged choices and the numbers for this log.
  StatedLogs withStaged() const;
  void keep(bool for_all_logs);
  const ImportAccount* account() const;

  std::vector<ImportAccount> accounts_;
  StatedLogs stated_;  // as the logs were read
  // What is to be applied, by path of the log and name of the row: what was proposed, and what the user chose. Without
  // `means`: the user rejected what was proposed.
  std::map<std::pair<std::string, std::string>, StatedName> staged_;
  QComboBox* logs_;
  QLabel *summary_, *kept_file_;
  AccountTable* table_;
  MeaningEditor* editor_;
  ExpertLoadPanel* preview_;  // of the loads as they are read
  Selection* selection_;
  QPushButton *apply_, *leave_out_;
  QSpinBox *layers_, *experts_, *top_k_;
  std::vector<QLabel*> found_;  // values and sources of steps, layers, experts, top_k, tokens of a step
};

// A row for the names of a log that differ only in their numbers: first those that are shown, then those left out.
class AccountTable : public QTreeWidget {
  Q_OBJECT

 public:
  explicit AccountTable(QWidget* parent = nullptr);
  void showAccount(const ImportAccount& account);
  // Selects the row of the name, else the first that is assumed, cannot be right or is unknown. Returns false if there
  // is none.
  bool choose(const std::string& name);
  // Shows in the row of the name what it is to be taken for once it is applied; without `means`: as it is read.
  void showPending(const std::string& name, const StatedName& choice);

 signals:
  void chosen(const AccountRow& row);

 private:
  void addRow(const AccountRow& row);
  void fitColumns();
  std::vector<AccountRow> rows_;
};

// States what the names of a row of the account mean: the figure, which number is the layer and which the expert, and
// the unit of the values. The result is a rule of a mapping file (core/logs/tag_map.h).
class MeaningEditor : public QWidget {
  Q_OBJECT

 public:
  explicit MeaningEditor(QWidget* parent = nullptr);
  void edit(const AccountRow& row, const StatedName* staged);  // shows what is staged, else how the row is read
  void clear();                                                // of no row
  const std::string& name() const { return name_; }
  bool isEmpty() const { return name_.empty(); }                      // no row was chosen
  bool isEdited() const { return choice().rule() != read_as_rule_; }  // the choice differs from how the row is read
  StatedName choice() const;
  void leaveOut();  // chooses it

 signals:
  void changed();

 private:
  void showNumbers(const std::string& pattern);
  void showUnits();
  std::string pattern() const;

  std::string name_;                    // of the row: "blk{layer}.e{expert}.frac"
  StatedName likely_;                   // of the row: what is staged, else as it is read, or as its values look
  std::string read_as_, read_as_rule_;  // `means` and the rule of the row as it is read; no rule if it is assumed
  QLabel *title_, *evidence_;
  QComboBox* means_;
  QVBoxLayout *numbers_, *units_;
  std::vector<QComboBox*> number_means_;  // in the order of the numbers in the name
  QButtonGroup* unit_;
};

}  // namespace moescope
