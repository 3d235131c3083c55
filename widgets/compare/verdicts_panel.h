// Verdicts on the open runs: a row for each run with its verdict, its gap to run A as an interval, and the cost of its
// number formats.
#pragma once

#include <QComboBox>
#include <QStackedWidget>

#include "core/findings/comparison/operand_sqnr.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/compare/verdict_table.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/panel.h"

namespace moescope {

class VerdictsPanel : public Panel {
  Q_OBJECT

 public:
  VerdictsPanel(Selection* selection, ComparedRuns* runs, JudgedRuns* judged, QWidget* parent = nullptr);
  ValueTable table() const override { return showsRuns() ? tableOfRuns() : other_table_(); }
  QString explain() const override;

  VerdictTable* verdictTable() const { return table_; }
  int heightWanted() const;  // height with all rows
  // Adds another view of verdicts, whose values `table` returns.
  void addView(const QString& name, QWidget* view, std::function<ValueTable()> table);
  void showView(int view);  // 0: the open runs

  static constexpr int kWindow = 50;  // steps over which the figures besides the verdict are averaged

 signals:
  void viewShown();  // another view is shown, which wants another height

 protected:
  QString status() const override;

 private:
  void refill();
  std::vector<VerdictRow> rows() const;
  VerdictRow row(int place) const;
  FormatCosts costsOf(int place) const;
  void addCosts(VerdictRow& row, int place) const;
  void addGap(VerdictRow& row, int place) const;
  QString note(int place) const;
  QString noteAtStart(int place) const;
  QStringList settingsOf(int place) const;
  void chooseMatters(double share);
  void fillGuide();
  void showLoss();
  bool showsRuns() const { return stack_->currentIndex() == 0; }
  ValueTable tableOfRuns() const;

  ViewSwitch* switch_ = nullptr;
  QStackedWidget* stack_;
  QLabel* guide_;
  std::function<ValueTable()> other_table_;
  ComparedRuns* runs_;
  JudgedRuns* judged_;
  VerdictTable* table_;
  QComboBox *loss_, *matters_;
  StepRange window_;               // steps over which figures are means
  std::vector<OperandSqnr> sqnr_;  // SQNR of each run's operands
};

// "0.25 %".
QString shareText(double share);

}  // namespace moescope
