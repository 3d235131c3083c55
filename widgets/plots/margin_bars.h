// Bars beside the rows of a plot, one value for each row. Strong bars and high rows have their value beside them.
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
  QString caption = {};   // text above the bars: "last 50 steps"
  double least_high = 0;  // smallest upper end of the scale
  double reference = -1;  // a dashed line; negative: none
};

// Paints the bars in `area`, which has the height of the rows. The caption is above it, the scale below.
void paintMarginBars(QPainter& painter, const QRect& area, const MarginBars& bars, const QPalette& palette);

}  // namespace moescope
