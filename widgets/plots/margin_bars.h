// Bars beside the rows of a plot with a value for each row; strong bars have their value beside them.
#pragma once

#include <QPainter>
#include <QPalette>
#include <vector>

namespace moescope {

struct MarginBar {
  double top = 0, bottom = 0;  // edges of the row, pixels
  double value = 0;
  bool strong = false;
};

struct MarginBars {
  std::vector<MarginBar> bars = {};
  QString caption = {};   // above: "last 50 steps"
  double least_high = 0;  // the scale reaches at least so far
  double reference = -1;  // a dashed line; negative: none
};

// Paints the bars in `area`, which is as high as the rows; the caption is above, the scale below it.
void paintMarginBars(QPainter& painter, const QRect& area, const MarginBars& bars, const QPalette& palette);

}  // namespace moescope
