// Load of every expert in one run minus its load in run A, or how far its weights are from those in run A.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

class LoadDifferencePanel : public Panel {
  Q_OBJECT

 public:
  explicit LoadDifferencePanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 protected:
  QString status() const override;
  Answer answer() const override;

 private:
  struct Row {
    std::int64_t step = 0;
    int layer = 0;
    std::vector<float> difference, run_load, a_load;  // [E] utilisation; of weights only |W - W_A| / |W_A|
  };
  // Returns a row for each layer that both runs have with the same number of experts, at the run's newest step at or
  // before the cursor; no rows if run A has no loads at that step.
  std::vector<Row> rows(int run) const;
  void followOrigin();
  std::vector<Row> weightRows(int run) const;
  Answer weightAnswer(int run) const;
  bool showsWeights() const { return shown_->currentIndex() == 1; }
  void refill();
  void markCurrent() { view_->setCurrent(index_in(rows_, selection_->layer(), &Row::layer), selection_->expert()); }
  void paintNumbers(QPainter& painter) const;
  QStringList describe(int row, int column) const;

  QComboBox* shown_;
  MatrixPlot* view_;
  std::vector<Row> rows_;
  bool has_weights_ = false;  // the compared run is a checkpoint with compared weights
};

}  // namespace moescope
