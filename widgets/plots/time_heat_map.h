// Coloured rows over steps, such as experts or exponents. Columns are slices of steps aligned to multiples of their
// width, so that a growing run only adds columns; each column is fetched once.
#pragma once

#include <vector>

#include "widgets/plots/color_scale.h"
#include "widgets/plots/time_axis_plot.h"

namespace moescope {

class TimeHeatMap : public TimeAxisPlot {
  Q_OBJECT

 public:
  explicit TimeHeatMap(Selection* selection, QWidget* parent = nullptr);

  // Cells of `bins` equal slices of the range, bins x rows, as codes of the colour scale. Set before the first paint.
  std::function<std::vector<std::uint8_t>(StepRange, int bins)> fetch;
  std::function<QStringList(int row, std::int64_t step)> describe;
  std::function<std::optional<FigureTarget>(int row, std::int64_t step)> figure;
  std::optional<FigureTarget> figureAt(QPoint position) const override;

  // Sets the data that are shown, in refill(). Cells are cached while `source` is equal.
  void setSource(const QString& source, int rows);
  void setVisibleRows(int first, int last);
  void setRowAxis(std::vector<Tick> ticks, const QString& caption, bool upward);
  void setLegend(const LegendScale& scale) { legend_ = scale; }
  // The legend is on the panel's answer line; exported pictures have it in the plot.
  void setLegendElsewhere() { legend_elsewhere_ = true; }
  // Sets the weights of the codes. If rows or columns share a pixel, the code with the largest weight is shown.
  void setWeights(const std::array<std::uint8_t, 256>& weights) { weights_ = weights; }
  void setHatched(int code) { hatched_code_ = code; }  // cells with this code have diagonal lines
  // Columns without data repeat the column before them, for values that are measured only every n-th step.
  void setHeld(bool held) { held_ = held; }
  void setCurrentRow(int row, const QString& label = {}) {
    current_row_ = row;
    current_label_ = label;
  }
  // Sets the row at each place, a permutation; empty: the order of `fetch`. All rows are numbered in the order of
  // `fetch`.
  void setRowOrder(std::vector<int> order) { order_ = std::move(order); }

  int rowAt(int y) const;
  double yOf(double place) const;  // upper edge of the row at a place; lower edge if rows run upward
  std::int64_t stepsPerColumn() const { return stride_; }

 signals:
  void rowClicked(int row);

 protected:
  QPoint cursorPosition() const override;
  void paintStatic(QPainter& painter) override;
  void paintScale(QPainter& painter) const;  // paints the colour scale, unless it is elsewhere
  void paintData(QPainter& painter) override;
  void paintOverlay(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void clickedAt(QPoint position) override;

 private:
  bool hasRows() const;  // false: the functions of a row are not called
  void updateColumns();
  int rowOf(int place) const { return order_.empty() ? place : order_[place]; }
  int placeOf(int row) const;
  QImage image(int pixel_rows) const;  // the cells: one pixel wide for each column, at most `pixel_rows` high
  void paintHatch(QPainter& painter, const QImage& picture, const QRectF& place) const;

  QString source_;
  int rows_ = 0, first_row_ = 0, last_row_ = -1, current_row_ = -1, hatched_code_ = -1;
  bool upward_ = false, held_ = false, legend_elsewhere_ = false;
  std::vector<int> order_;
  std::vector<Tick> row_ticks_;
  QString row_caption_, current_label_;
  LegendScale legend_;
  std::array<std::uint8_t, 256> weights_{};

  // Cached cells: columns [first_column_, ...), each `stride_` steps, time-major.
  std::int64_t stride_ = 1, first_column_ = 0, known_last_step_ = -1;
  std::uint64_t known_sequence_ = 0;
  std::vector<std::uint8_t> codes_;
};

}  // namespace moescope
