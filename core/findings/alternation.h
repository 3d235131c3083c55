// Successive loads of a layer as a series: its correlation with itself, and whether the kind of text alternates.
//
// Legend: n rows (loads, or means of loads), E experts.
#pragma once

#include <span>
#include <vector>

namespace moescope {

// Autocorrelations of the rows' deviations from their mean at the lags 0 to `lags` < n; all 0 if the rows are equal.
std::vector<double> autocorrelations(std::span<const float> rows_nE, std::span<const float> mean_E, int lags);

// Returns true if rows that alternate do so with the kind of text. Most of them are then near one of two states, with
// several successive rows in each; or the loss alternates as well; or the mean of the rows is nearly as uneven as they
// are, while a bias that overshoots makes it even. `losses_n` may be empty or NaN.
bool alternates_with_texts(std::span<const float> rows_nE, std::span<const float> mean_E,
                           std::span<const float> losses_n);

}  // namespace moescope
