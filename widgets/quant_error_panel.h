// What quantization does to every operand: layer x (weight, direction, operand), SQNR in colour, underflow and clipping
// as bars in each cell.
#pragma once

#include "widgets/matrix_plot.h"
#include "widgets/panel.h"

namespace moescope {

class QuantErrorPanel : public Panel {
  Q_OBJECT

 public:
  explicit QuantErrorPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;
  MatrixPlot* view() const { return view_; }

 protected:
  QString status() const override;

 private:
  void refill();
  void indexCells();
  void markCurrent();
  void paintGlyphs(QPainter& painter) const;
  void paintGroups(QPainter& painter) const;
  const QuantFrame* quantAt(int row, int column) const;
  QStringList describe(int row, int column) const;

  MatrixPlot* view_;
  std::shared_ptr<const TelemetryFrame> frame_;
  std::vector<int> layers_;                 // rows
  std::vector<Selection::Tensor> tensors_;  // columns
  std::vector<const QuantFrame*> cells_;    // rows x columns, in frame_; nullptr: not quantized
};

}  // namespace moescope
