// The open tensor in every element format, scale rule and block size, computed in a worker thread; a click applies a
// choice.
#pragma once

#include <QAction>
#include <QComboBox>
#include <vector>

#include "core/numerics/block_anatomy.h"
#include "core/numerics/what_if.h"
#include "widgets/microscaling/tensor_source.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

enum class WhatIfMetric { sqnr, underflow, clipped };
enum class WhatIfColumns { block_sizes, scale_rules };

// One tensor in many formats along the selected axis: a matrix of formats x block sizes (or x scale rules), and below
// it a row of schemes whose scales are not powers of two. Cells have number and colour; the selected cell has a frame.
class WhatIfTable : public PlotFrame {
  Q_OBJECT

 public:
  explicit WhatIfTable(QWidget* parent = nullptr);

  // Sets the rows of what_if() and what_if_schemes(); empty if they are not computed yet.
  void setFigures(std::vector<WhatIfRow> rows, std::vector<WhatIfRow> schemes);
  const std::vector<WhatIfRow>& rows() const { return rows_; }
  const std::vector<WhatIfRow>& schemes() const { return schemes_; }
  void setMetric(int metric) {
    metric_ = static_cast<WhatIfMetric>(metric);
    markDirty();
  }
  void setColumns(int columns) {
    columns_ = static_cast<WhatIfColumns>(columns);
    markDirty();
  }
  // Sets the selected format. Block sizes are compared for its scale rule, and scale rules for its block size.
  void setChoice(const OperandFormat& format, BlockAxis axis);
  const OperandFormat& choice() const { return choice_; }
  BlockAxis axis() const { return axis_; }
  // Figures of the selected format; nullptr if they are not computed.
  const QuantSums* chosenSums() const;
  // Figures of the selected MX format with another element format or axis; nullptr if they are not computed.
  const QuantSums* sumsOf(ElementFormat element, BlockAxis axis) const;
  double gainOfNvfp4() const;  // dB that an MXFP4 tensor would gain in NVFP4; NaN for other formats
  QRect cellRect(int format, int column) const;
  int columnCount() const { return columns_ == WhatIfColumns::block_sizes ? std::ssize(kWhatIfBlocks) : kWhatIfRules; }
  QRect schemeRect(int scheme) const;

 signals:
  void chosen(const OperandFormat& format, BlockAxis axis);

 protected:
  QMargins margins() const override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Cell {
    int format = 0, column = 0;
  };
  bool showsSchemes() const;  // whether the schemes have room
  int schemesHeight() const { return showsSchemes() ? 2 * fontMetrics().height() + kSpace16 : 0; }
  OperandFormat mxChoice() const;
  const WhatIfRow& rowOf(const Cell& cell) const;
  double valueOf(const QuantSums& sums) const;
  QString textOf(const QuantSums& sums) const;
  QRgb colorOf(const QuantSums& sums) const { return matrixLut(dark())[scaleCode(position(valueOf(sums)))]; }
  double position(double value) const;  // position on the colour scale, 0..1
  Cell choiceCell() const;              // cell of the selected format; column -1: no cell
  void choose(const WhatIfRow& row);
  int schemeOfChoice() const;  // index of the selected format among the schemes; -1: not a scheme
  void paintHeads(QPainter& painter) const;
  void paintCell(QPainter& painter, const Cell& cell) const;
  QStringList readout(const WhatIfRow& row) const;
  const WhatIfRow& schemeRow(int scheme) const;
  const WhatIfRow* rowAt(QPoint position) const;
  void paintSchemes(QPainter& painter) const;

  std::vector<WhatIfRow> rows_;
  std::vector<WhatIfRow> schemes_;
  WhatIfMetric metric_ = WhatIfMetric::sqnr;
  WhatIfColumns columns_ = WhatIfColumns::block_sizes;
  OperandFormat choice_ = mx_format(ElementFormat::e4m3);
  BlockAxis axis_ = BlockAxis::row;
};

class WhatIfPanel : public Panel {
  Q_OBJECT

 public:
  explicit WhatIfPanel(Selection* selection, QWidget* parent = nullptr);

  void setSource(const TensorSource& source, std::size_t slice = 0);
  void setChoice(const OperandFormat& format, BlockAxis axis) {
    table_->setChoice(format, axis);
    update();  // the answer compares with this format
  }
  const WhatIfTable* tree() const { return table_; }
  void cancel();

  ValueTable table() const override;

 signals:
  void chosen(const OperandFormat& format, BlockAxis axis);

 protected:
  // The kind of the open tensor, independent of the open run.
  std::optional<Provenance> kind() const override {
    return table_->rows().empty() ? std::nullopt : std::optional(Provenance::measured_here);
  }
  QString status() const override;
  Answer answer() const override;

 private:
  WhatIfTable* table_;
  QComboBox *metric_, *columns_;
  QAction* cancel_;
  QString note_;                  // the tensor and the values that were used
  std::array<int, 2> lengths_{};  // values of a row and of a column; 0: columns of several experts
  int request_ = 0;               // number of the newest request; older results are dropped
  LatestWorker worker_;
};

}  // namespace moescope
