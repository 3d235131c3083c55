// Who sends what to whom: a matrix of the bytes from rank to rank with a bar above each column for what that rank
// receives, and a column of figures. A narrow plot hides the figures, a low plot the bars and the heading.
#pragma once

#include <vector>

#include "widgets/plots/matrix_plot.h"

namespace moescope {

inline constexpr double kEvenRanks = 1.05;  // fullest rank over the mean; below it, no rank is named

class RankMatrix : public MatrixPlot {
  Q_OBJECT

 public:
  struct Figure {
    QString name, value, context;
    std::optional<FigureTarget> target;
  };
  explicit RankMatrix(QWidget* parent = nullptr);

  // `bytes_RR`: what each rank sends to each other; the diagonal is not sent. `largest` and `mean`
  // of the values between different ranks give the colour scale.
  void setBytes(int ranks, std::vector<double> bytes_RR, double largest, double mean);
  void setReceived(std::vector<double> received_R, int ranks_per_node);  // received copies as multiples of the mean
  void setFigures(std::vector<Figure> figures) { figures_ = std::move(figures); }
  std::function<QStringList(int rank)> describeReceived;
  FigureTarget receivedFigure{.key = "dispatch_overload"};

  int fullest() const;  // rank that receives most copies; -1: there are no ranks
  int marked() const;   // the same; -1: all ranks receive about the same
  QRect figureRect(int figure) const;
  QRectF barRect(int rank) const;  // empty if there is no room for bars
  std::optional<FigureTarget> figureAt(QPoint position) const override;

 protected:
  QMargins margins() const override;
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;

 private:
  struct Parts {
    QRect matrix, bars, figures;  // empty if there is no room
  };
  Parts parts() const;
  int nodes() const { return ranks_per_node_ > 0 ? (rows() + ranks_per_node_ - 1) / ranks_per_node_ : 0; }
  int leftMargin() const;
  int bottomMargin() const { return (nodes() > 1 && !isLow() ? 2 : 1) * fontMetrics().height() + kSpace4; }
  int figuresWidth() const;
  int figureHeight() const;
  bool isLow() const;
  int barAt(QPoint position) const;
  double barScale() const;  // pixels for the mean
  QString cellText(int row, int column) const;
  void paintNodes(QPainter& painter) const;
  // y of the word "from"
  int fromTop() const { return parts().bars.isEmpty() ? cellsRect().top() : cellsRect().top() - kSpace4; }
  void paintRanks(QPainter& painter) const;
  void paintBars(QPainter& painter) const;
  void paintFigures(QPainter& painter) const;

  std::vector<double> bytes_, received_;
  std::vector<Figure> figures_;
  int ranks_per_node_ = 0;
  double unit_bytes_ = 1;  // bytes of the unit in the cells
};

}  // namespace moescope
