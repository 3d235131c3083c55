// The fullest experts of a layer at a step, as bars beside the map of the load, and how many get nothing.
#pragma once

#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

class FullestExperts : public PlotFrame {
  Q_OBJECT

 public:
  struct Row {
    int expert = 0;
    double load = 0;  // 1: the fair share
  };

  explicit FullestExperts(QWidget* parent = nullptr);
  void setRows(std::vector<Row> rows);                  // the fullest first
  void setWithoutTokens(int experts, int of);
  int rowsThatFit() const;
  QSize sizeHint() const override;

 signals:
  void expertChosen(int expert);

 protected:
  QMargins margins() const override { return {0, fontMetrics().height() + 4, 0, 0}; }
  void paintStatic(QPainter& painter) override;
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  void mousePressEvent(QMouseEvent* event) override;

 private:
  int rowHeight() const;
  int rowAt(QPoint position) const;  // -1: none
  void paintWithout(QPainter& painter, int top) const;

  std::vector<Row> rows_;
  int without_ = 0, of_ = 0;
};

}  // namespace moescope
