// Copies from rank to rank as a matrix, with a bar for the copies that each rank receives and a column of figures. In a
// narrow plot the figures are hidden first, then the bars.
#pragma once

#include <vector>

#include "widgets/plots/matrix_plot.h"

namespace moescope {

class RankMatrix : public MatrixPlot {
  Q_OBJECT

 public:
  struct Figure {
    QString name, value;
    FigureTarget target;
  };
  explicit RankMatrix(QWidget* parent = nullptr);

  void setReceived(std::vector<double> received_R, int ranks_per_node);  // received copies as multiples of the mean
  void setFigures(std::vector<Figure> figures) { figures_ = std::move(figures); }
  std::function<QStringList(int rank)> describeReceived;
  FigureTarget receivedFigure{.key = "dispatch_overload"};

  int fullest() const;  // rank that receives most; -1: there are no ranks
  QRect figureRect(int figure) const;
  QRectF barRect(int rank) const;  // empty: there is no room for bars
  std::optional<FigureTarget> figureAt(QPoint position) const override;

 protected:
  QMargins margins() const override;
  QString staticKey() const override { return {}; }
  QRect legendRect() const override { return {}; }
  QString legendKey() const override { return {}; }
  void paintStatic(QPainter&) override {}
  void paintColorLegend(QPainter&) override {}
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  struct Parts {
    QRect matrix, bars, figures;  // empty: no room
  };
  Parts parts() const;
  int labelWidth() const;
  int leastBarsWidth() const;
  int figuresWidth() const;
  int barAt(QPoint position) const;
  double barScale() const;  // pixels for the mean
  void paintNodes(QPainter& painter) const;
  void paintRowLabels(QPainter& painter) const;
  void paintColumnLabels(QPainter& painter) const;
  void paintBars(QPainter& painter) const;
  void paintFigures(QPainter& painter) const;

  std::vector<double> received_;
  std::vector<Figure> figures_;
  int ranks_per_node_ = 0;
};

}  // namespace moescope
