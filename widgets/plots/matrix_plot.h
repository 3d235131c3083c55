// A table of coloured cells: layer x expert, rank x rank, layer x operand. The readout describes the cell under the
// mouse; a click or the arrow keys choose a cell.
#pragma once

#include <vector>

#include "widgets/look/tokens.h"
#include "widgets/plots/color_scale.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

class MatrixPlot : public PlotFrame {
  Q_OBJECT

 public:
  using PlotFrame::PlotFrame;

  // `codes`: rows x columns, row-major, bytes of the colour scale.
  void setCells(int rows, int columns, std::vector<std::uint8_t> codes);
  void setLegend(const LegendScale& scale) { legend_ = scale; }
  // Leaves the legend to the panel's answer line. Pictures have it in the row of the caption if `in_pictures`.
  void setLegendElsewhere(bool in_pictures = true) {
    legend_elsewhere_ = true;
    legend_in_pictures_ = in_pictures;
  }
  void setWeights(const std::array<std::uint8_t, 256>& weights) { weights_ = weights; }  // as in TimeHeatMap
  void setRowAxis(std::vector<Tick> ticks, const QString& caption);
  void setColumnAxis(std::vector<Tick> ticks, const QString& caption) {
    column_ticks_ = std::move(ticks);
    column_caption_ = caption;
  }
  // Sets the selected cell; row -1: none; column -1: the whole row is framed; row kAllRows: the whole column.
  void setCurrent(int row, int column) {
    row_ = row;
    column_ = column;
  }
  static constexpr int kAllRows = -2;
  void setHatched(int code) { hatched_code_ = code; }  // cells with this code have diagonal lines
  void setExtraMargins(const QMargins& margins) { extra_ = margins; }
  std::function<void(QPainter&)> decorate;  // paints on the cells, into the cached picture
  std::function<QStringList(int row, int column)> describe;
  std::function<std::optional<FigureTarget>(int row, int column)> figure;
  std::optional<FigureTarget> figureAt(QPoint position) const override;

  const LegendScale& legend() const { return legend_; }
  int rows() const { return rows_; }
  int columns() const { return columns_; }
  QRectF cellRect(int row, int column) const;
  bool cellAt(QPoint position, int* row, int* column) const;
  QRect cellsRect() const { return plotRect(); }  // area of the cells
  QRgb cellColor(int row, int column) const;
  // Paints a text in each cell, in a smaller font if the cells are a little smaller than `min_size`, not at all in
  // cells that are smaller still. For `decorate`.
  void paintTexts(QPainter& painter, const QSizeF& min_size,
                  const std::function<QString(int row, int column)>& text) const;
  QSizeF sizeFor(const QString& widest, int margin = kSpace4) const;  // size of a cell that has room for this text

 signals:
  void cellChosen(int row, int column);
  void cellOpened(int row, int column);  // clicked, or Enter was pressed; emitted after cellChosen

 protected:
  QMargins margins() const override;
  // The row of the caption, above the headings of the columns.
  QRect captionRow() const override { return {0, 0, width(), fontMetrics().height()}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QPoint cursorPosition() const override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QImage image(const QSize& max_size) const;
  // Returns the code with the largest weight in a rectangle of cells; of equal weights, the first.
  std::uint8_t heaviest(int first_row, int end_row, int first_column, int end_column) const;
  void paintHatch(QPainter& painter) const;

  int rows_ = 0, columns_ = 0, row_ = -1, column_ = -1, hatched_code_ = -1;
  std::vector<std::uint8_t> codes_;
  LegendScale legend_;
  std::array<std::uint8_t, 256> weights_{};
  std::vector<Tick> row_ticks_, column_ticks_;
  QString row_caption_, column_caption_;
  QMargins extra_;
  int widest_label_ = 0;  // widest label of the rows
  bool legend_elsewhere_ = false, legend_in_pictures_ = true;
};

// Weights for setWeights(). On a diverging scale the value farthest from neutral has the largest weight, and "no token"
// outweighs all but loads of four fair shares or more, so that it does not vanish; on a sequential scale the largest
// value does.
std::array<std::uint8_t, 256> utilisationWeights(int limit = 4);
std::array<std::uint8_t, 256> sequentialWeights();

}  // namespace moescope
