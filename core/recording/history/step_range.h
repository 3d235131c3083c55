// A range of steps, and its division into the bins of a plot.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moescope {

struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = -1;  // inclusive
  bool empty() const { return last < first; }
  std::int64_t size() const { return empty() ? 0 : last - first + 1; }
  bool operator==(const StepRange&) const = default;
};

// Returns the first step of slice `bin` of `bins` equal slices; for bin == bins, the step after the range.
inline std::int64_t slice_begin(StepRange range, int bins, int bin) {
  const std::int64_t size = range.size();  // split into quotient and remainder, so that huge ranges do not overflow
  return range.first + size / bins * bin + size % bins * bin / bins;
}

// Returns the edges of all slices, [bins + 1]: slice b holds the steps [edges[b], edges[b + 1]).
inline std::vector<std::int64_t> slice_edges(StepRange range, int bins) {
  assert(bins > 0);
  std::vector<std::int64_t> edges(static_cast<std::size_t>(bins) + 1);
  for (int b = 0; b <= bins; ++b) edges[b] = slice_begin(range, bins, b);
  return edges;
}

// Returns edges that give each of these rising steps its own bin.
inline std::vector<std::int64_t> edges_of(std::vector<std::int64_t> steps) {
  if (!steps.empty()) steps.push_back(steps.back() + 1);
  return steps;
}

}  // namespace moescope
