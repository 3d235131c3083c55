// The table of outcomes: run A, then its candidates by loss gap. A click on a column's title sorts by the column; so
// does the key S with the cursor in the column. Enter or a double click opens the group's recording.
#pragma once

#include <QTableView>
#include <vector>

#include "core/findings/comparison/outcomes.h"

namespace moescope {

class OutcomesModel;

class OutcomesTable : public QTableView {
  Q_OBJECT

 public:
  explicit OutcomesTable(QWidget* parent = nullptr);
  // Shows outcomes in the order of outcomes(). `training`: number of the group that trains; 0: none.
  void showOutcomes(std::vector<Outcome> outcomes, int training);
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  int heightFor(int rows) const;  // height at which `rows` rows are visible without scrolling
  QString notMeasured() const;    // which columns are hidden because they are empty, and which settings fill them

 signals:
  void opened(const moescope::Outcome& outcome);  // a row was opened by Enter or a double click
  void chosen(const moescope::Outcome& outcome);  // a row was clicked

 protected:
  bool event(QEvent* event) override;

 private:
  void sortByCurrentColumn();
  const Outcome& outcomeAt(const QModelIndex& index) const;
  bool isMeasured(int column) const;

  std::vector<Outcome> outcomes_;
  OutcomesModel* model_;
};

}  // namespace moescope
