// The window "What was read": what each name of the opened logs was taken for, what was left out and why, and how the
// shape of the run was found. The user corrects a row, sees the panels change, and keeps the correction for this log or
// for all logs.
#pragma once

#include <QDialog>
#include <vector>

#include "core/logs/account.h"
#include "core/logs/import.h"

class QComboBox;
class QLabel;
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
  // Shows the accounts of the open logs; the first is chosen. Rules that were stated before stay until other logs are
  // shown.
  void showAccounts(std::vector<ImportAccount> accounts);

 signals:
  // The logs are to be read again with the rules, the newest first, and with stated numbers.
  void stated(const std::string& rules, const RoutedShape& shape);
  void refused(const QString& why);  // a file could not be written

 private:
  QWidget* makeShape();
  QWidget* makeEditor();
  void showAccount();
  void state(const std::string& rule);
  void keep(bool for_all_logs);
  const ImportAccount* account() const;

  std::vector<ImportAccount> accounts_;
  std::string rules_;
  QComboBox* logs_;
  QLabel *summary_, *kept_;
  AccountTable* table_;
  MeaningEditor* editor_;
  ExpertLoadPanel* preview_;  // of the loads as they are read
  Selection* selection_;
  QPushButton* confirm_;
  QSpinBox *layers_, *experts_, *top_k_;
  std::vector<QLabel*> found_;  // values and sources of steps, layers, experts, top_k, tokens of a step
};

}  // namespace moescope
