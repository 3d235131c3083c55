// Load of every expert in one run minus the same in run A.
#pragma once

#include "widgets/compared_runs.h"
#include "widgets/matrix_plot.h"
#include "widgets/panel.h"

namespace moescope {

class LoadDifferencePanel : public Panel {
  Q_OBJECT

 public:
  explicit LoadDifferencePanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  MatrixPlot* view() const { return view_; }

 protected:
  QString status() const override;

 private:
  struct Row {
    int layer = 0;
    std::vector<float> difference;  // [E]
  };
  // Of the layers that both have with equal numbers of experts, at the newest step at or before the cursor's.
  std::vector<Row> rows(std::int64_t* step) const;
  void refill();
  void markCurrent();
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;

  MatrixPlot* view_;
  std::vector<Row> rows_;
};

}  // namespace moescope
