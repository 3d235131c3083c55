// What quantization does to every operand of one class of GEMMs: layer x (weight, direction, operand), SQNR in colour,
// underflow and clipping as bars in each cell. A click on a cell opens the tensor.
#pragma once

#include <utility>

#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

class QuantizationErrorPanel : public Panel {
  Q_OBJECT

 public:
  explicit QuantizationErrorPanel(Selection* selection, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

 signals:
  // A cell was clicked, or Enter pressed on it: the operand, and the step that the matrix shows.
  void operandOpened(const OperandPlace& place, std::int64_t step);

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;

 private:
  void refill();
  void indexCells();
  void markCurrent();
  std::pair<double, double> colorRange() const;  // dB
  OperandPlace placeAt(int row, int column) const;
  void paintGlyphs(QPainter& painter) const;
  int groupHeight() const;
  void paintGroups(QPainter& painter) const;
  const QuantFrame* quantAt(int row, int column) const;
  QStringList describe(int row, int column) const;

  MatrixPlot* view_;
  std::shared_ptr<const TelemetryFrame> frame_;
  GemmClass gemm_class_ = GemmClass::experts;
  std::shared_ptr<const TelemetryFrame> indexed_;  // the source of the following: every n-th step has one
  GemmClass indexed_class_ = GemmClass::experts;
  QString formats_;
  std::vector<int> layers_;               // rows
  std::vector<OperandPlace> tensors_;     // columns, layer 0
  std::vector<const QuantFrame*> cells_;  // rows x columns, in frame_; nullptr: not quantized
};

}  // namespace moescope
