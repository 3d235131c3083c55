// A figure that was measured on several pieces of text: its mean, with an interval.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "core/numerics/statistics/student_t.h"

namespace moescope {

struct FigureOfPieces {
  double mean = 0;
  double interval = 0;  // half of the width of the mean's interval over pieces; NaN for a single piece
};
// Returns mean and interval of `pieces` values with this mean and sum of squared deviations from it. `inside`:
// probability of the interval.
inline FigureOfPieces figure_of_sums(double pieces, double mean, double squares, double inside = 0.95) {
  if (pieces < 2) return {mean, std::numeric_limits<double>::quiet_NaN()};
  return {mean, student_quantile(pieces - 1, inside) * std::sqrt(squares / (pieces - 1) / pieces)};
}
// Returns mean and interval of `values`, the values of at least one piece.
inline FigureOfPieces figure_of_pieces(std::span<const double> values, double inside = 0.95) {
  const double n = values.size();
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  return figure_of_sums(n, sum / n, squares, inside);
}

}  // namespace moescope
