// Map of the block scales of a tensor: one cell per block, coloured by the exponent k of its scale 2^k.
//
// Blocks along rows: rows x blocks. Blocks down columns: blocks x columns. The wheel zooms about the mouse, Shift+wheel
// scrolls sideways, a double click or Home fits; a click or the arrow keys open a block. If a tensor has more blocks
// than can be shown, every n-th block is read and drawn, and the header says so.
#pragma once

#include <QComboBox>
#include <QScrollBar>
#include <QSpinBox>

#include "core/numerics/block_anatomy.h"
#include "widgets/microscaling/tensor_source.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/matrix_plot.h"

namespace moescope {

// The cells, with zooming added.
class ScaleMapCells : public MatrixPlot {
  Q_OBJECT

 public:
  using MatrixPlot::MatrixPlot;

 signals:
  void zoomed(double row_share, double column_share, double factor);  // zoom about a point inside the cells
  void scrolled(double shown_widths);
  void fitted();

 protected:
  void wheelEvent(QWheelEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent*) override { emit fitted(); }
  void keyPressEvent(QKeyEvent* event) override;
};

class BlockScaleMapPanel : public Panel {
  Q_OBJECT

 public:
  explicit BlockScaleMapPanel(Selection* selection, QWidget* parent = nullptr);

  void setSource(const TensorSource& source, std::size_t slice = 0);
  void setFormat(const OperandFormat& format, BlockAxis axis);
  void setCurrent(std::size_t line, std::size_t block);  // as for blockChosen
  BlockAxis axis() const { return axis_; }
  void fit();

  ValueTable table() const override;

 signals:
  // A block was chosen: its row (or column) and its number along it.
  void blockChosen(std::size_t line, std::size_t block);
  void axisChosen(BlockAxis axis);
  void sliceChosen(std::size_t slice);

 protected:
  // The kind of the open tensor, independent of the open run.
  std::optional<Provenance> kind() const override {
    return source_.valid() ? std::optional(Provenance::measured_here) : std::nullopt;
  }
  QString status() const override { return source_.valid() ? source_.name() : QString(); }
  Answer answer() const override;

 private:
  // One axis of the map: the number of cells, the visible cells, and how they are thinned to runs of `run` cells, of
  // which one in `step` is shown.
  struct Side {
    std::size_t size = 0, first = 0, visible = 0, step = 1, run = 1;
    std::size_t shown() const;
    std::size_t at(std::size_t cell) const;  // position of a shown cell
    void limit(std::size_t max_shown);
    void zoom(double share, double factor);
  };
  void setSides();
  void refill();
  void thin();
  std::vector<std::uint8_t> scales() const;
  void findOutliers(const std::vector<std::uint8_t>& scales);
  std::uint8_t scaleOf(std::uint32_t amax_bits, std::size_t line, std::size_t block) const;
  void scalesAlongRows(std::vector<std::uint8_t>& codes) const;
  void scalesDownColumns(std::vector<std::uint8_t>& codes) const;
  void setAxes();
  LegendScale legend() const;
  std::uint8_t cellCode(std::uint8_t scale) const;
  QStringList describe(int row, int column) const;
  void choose(int row, int column);
  std::pair<std::size_t, std::size_t> blockAt(int row, int column) const;
  void syncScrollBars();
  std::vector<Tick> expertTicks(int max_ticks) const;
  std::size_t firstCellOf(std::size_t group) const;
  void paintGroups(QPainter& painter) const;
  std::vector<Tick> sideTicks(const Side& side, int max_ticks) const;
  int shownAt(const Side& side, std::size_t position) const;  // -1: the position is not shown

  TensorSource source_;
  std::size_t slice_ = 0;
  OperandFormat format_ = mx_format(ElementFormat::e4m3);
  BlockAxis axis_ = BlockAxis::row;
  Side rows_, columns_;
  std::size_t current_row_ = 0, current_column_ = 0;
  bool has_current_ = false;
  // Exponents of two at the ends of the colour scale, which cover all scales shown before, so that colours do not
  // change while scrolling.
  int low_ = 0, high_ = -1;
  // Columns of the whole tensor whose usual scale is far above that of other columns; one block in `compared_step_` was
  // compared.
  std::vector<int> outliers_;
  std::size_t compared_step_ = 1;

  ScaleMapCells* cells_;
  QScrollBar *vertical_, *horizontal_;
  QComboBox* axis_box_;
  QSpinBox* slice_box_;
};

}  // namespace moescope
