// Quantization error of every operand of one class of GEMMs: layer x (weight, direction, operand), with the SQNR as
// number and colour, and a mark where many values become zero. Several runs have a row each instead, with the layer of
// the lowest SQNR in each cell, so that their formats are side by side. A click on a cell opens the tensor.
#pragma once

#include <QComboBox>

#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

inline constexpr double kToldShare = 0.01;  // share of lost values from which the matrix marks the operand

class QuantizationErrorPanel : public Panel {
  Q_OBJECT

 public:
  explicit QuantizationErrorPanel(Selection* selection, QWidget* parent = nullptr);
  ValueTable table() const override;

 signals:
  // A cell was clicked, or Enter was pressed on it. `step`: the step that the matrix shows.
  void operandOpened(const OperandPlace& place, std::int64_t step);

 protected:
  std::optional<Provenance> kind() const override { return selection_->quantFrame() ? Panel::kind() : std::nullopt; }
  QString status() const override;
  Answer answer() const override;

 private:
  // Figures of all operands of a class. The pointers point into `frame`.
  struct Summary {
    std::shared_ptr<const TelemetryFrame> frame;
    double median_db = 0, highest_db = -INFINITY;
    const QuantFrame *worst = nullptr, *most_underflow = nullptr, *most_clipped = nullptr;  // nullptr: none
  };
  Summary summary() const { return summaryOf(selection_->quantFrame()); }
  Summary summaryOf(std::shared_ptr<const TelemetryFrame> frame) const;
  bool isByRun() const { return runs_.size() > 1 && rows_choice_->currentIndex() == 0; }
  const TelemetryFrame& frameOf(std::size_t row) const { return isByRun() ? *runs_[row].frame : *frame_; }
  void findRuns();
  Answer answerOnRuns() const;
  QStringList runNames() const;
  LegendScale legend() const;
  QColor markColor(double share) const;
  static QString nameOf(const QuantFrame& quant, bool brief);
  bool holds(const QString& text, int lines) const;  // true if a cell has room for lines as wide as the text
  void refill();
  void indexCells();
  void markCurrent();
  OperandPlace placeAt(int row, int column) const;
  void paintNumbers(QPainter& painter) const;
  int groupHeight() const { return 2 * view_->fontMetrics().height() + 2; }
  void paintCell(QPainter& painter, int row, int column) const;
  struct Heading {
    int first, last;    // columns
    QStringList forms;  // long to short
  };
  std::vector<Heading> headings(int line) const;
  void paintGroups(QPainter& painter) const;
  void paintOperands(QPainter& painter) const;
  const QuantFrame* quantAt(int row, int column) const { return cells_[row * tensors_.size() + column]; }
  QStringList describe(int row, int column) const;

  MatrixPlot* view_;
  QComboBox* rows_choice_;
  struct RunRow {
    int run;
    std::shared_ptr<const TelemetryFrame> frame;
  };
  std::vector<RunRow> runs_;  // runs, other than noise twins, that quantize operands of the class
  std::shared_ptr<const TelemetryFrame> frame_;
  GemmClass gemm_class_ = GemmClass::experts;
  std::vector<int> layers_;               // layers of the rows, unless they are runs
  std::vector<OperandPlace> tensors_;     // tensors of the columns, with layer 0
  std::vector<const QuantFrame*> cells_;  // rows x columns, in frame_ or runs_; nullptr: not quantized
};

}  // namespace moescope
