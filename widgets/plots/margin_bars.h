// Bars beside the rows of a plot, which say what each row comes to: plain ones, strong ones with their figure.
#pragma once

#include <QPainter>
#include <QPalette>
#include <vector>

namespace moescope {

struct MarginBar {
  double top = 0, bottom = 0;  // of its row, pixels
  double value = 0;
  bool strong = false;
};

struct MarginBars {
  std::vector<MarginBar> bars;
  QString caption;        // above: "last 50 steps"
  double least_high = 0;  // the scale reaches at least so far
  double reference = -1;  // a dashed line; negative: none
};

// In `area`, whose height is that of the rows; caption above, scale below it.
void paintMarginBars(QPainter& painter, const QRect& area, const MarginBars& bars, const QPalette& palette);

}  // namespace moescope
