// Horizontal bars of one quantity, each row with its name and figures. A bar may have parts and a band; the fill
// (solid, hatched, outlined, dotted) shows the kind of the number, so that it can be read without colours. Caption and
// key are above the bars.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class BandBars : public PlotFrame {
  Q_OBJECT

 public:
  enum class Fill { solid, hatched, outlined, dotted };
  static constexpr int kPlain = -1, kStrong = -2;  // colours of bars that are not a series
  struct Part {
    double value = 0;
    int color = 0;  // index of seriesColor, kPlain or kStrong
    Fill fill = Fill::solid;
  };
  struct Row {
    QString name;  // empty: belongs to the row above
    std::vector<Part> parts;
    double low, high;      // the band; NaN: none
    QString figure;        // columns separated by tabs, right-aligned; the last ones are hidden first
    bool heading = false;  // a row with a name only
  };
  struct LegendEntry {
    QString label;
    int color = 0;
    Fill fill = Fill::solid;
    bool band = false;
  };

  using PlotFrame::PlotFrame;
  void setRows(std::vector<Row> rows);
  const std::vector<Row>& rows() const { return rows_; }
  void setLegend(std::vector<LegendEntry> legend) { legend_ = std::move(legend); }
  void setCaption(const QString& caption) { caption_ = caption; }  // name and unit of the bars
  void setFormatter(std::function<QString(double)> format) { format_ = std::move(format); }  // texts of the axis
  std::function<QStringList(int row)> describe;
  std::function<FigureTarget(int row)> figure;  // of a described row, for the explain card
  std::optional<FigureTarget> figureAt(QPoint position) const override;

 signals:
  void rowChosen(int row);  // a described row

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  Axis axis() const { return axisAcross(0, top_); }
  double rowHeight() const { return plotRect().height() / std::max<double>(1, static_cast<double>(rows_.size())); }
  int rowAt(QPoint position) const;  // -1: none
  int namesWidth() const;
  std::vector<int> figureColumns() const;  // widths of the columns
  QColor colorOf(int color) const;
  void paintFigures(QPainter& painter, const QStringList& figures, const QRect& line) const;
  void paintBar(QPainter& painter, const QRectF& bar, int color, Fill fill) const;
  void paintBand(QPainter& painter, double left_x, double right, double y,
                 double half_height) const;  // ends: 2 * half high
  void paintKey(QPainter& painter) const;

  std::vector<Row> rows_;
  std::vector<LegendEntry> legend_;
  QString caption_;
  std::function<QString(double)> format_;
  double top_ = 1;
};

}  // namespace moescope
