// The steps of a history: ranges, their division into the bins of a plot, and a row for each step.
#pragma once

#include <algorithm>
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

// A row for each step. Rows of equal spacing are stored as one entry, so that a step of a training that is recorded at
// one cadence takes no memory.
class StepRows {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::int64_t front() const { return runs_.front().step; }
  std::int64_t back() const { return (*this)[size_ - 1]; }

  std::int64_t operator[](std::size_t row) const {
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), row, [](std::size_t r, const Run& run) { return r < run.row; });
    const Run& run = *std::prev(after);
    return run.step + static_cast<std::int64_t>(row - run.row) * run.stride;
  }

  // Steps must rise.
  void push_back(std::int64_t step) {
    assert(empty() || step > back());
    if (!empty()) {
      Run& run = runs_.back();
      const std::int64_t length = size_ - run.row;
      if (length == 1) run.stride = step - run.step;
      if (step != run.step + length * run.stride) runs_.push_back({size_, step, 1});
    } else {
      runs_.push_back({0, step, 1});
    }
    ++size_;
  }

  void truncate(std::size_t rows) {
    size_ = std::min(size_, rows);
    while (!runs_.empty() && runs_.back().row >= size_) runs_.pop_back();
  }

  // Returns the first row whose step is at or after `step`.
  std::size_t row_of(std::int64_t step) const {
    if (empty() || step <= front()) return 0;
    if (step > back()) return size_;
    const auto after =
        std::upper_bound(runs_.begin(), runs_.end(), step, [](std::int64_t s, const Run& run) { return s < run.step; });
    const Run& run = *std::prev(after);
    const std::size_t end = after == runs_.end() ? size_ : after->row;
    return std::min(end, run.row + ((step - run.step + run.stride - 1) / run.stride));
  }

  std::size_t bytes() const { return runs_.capacity() * sizeof(Run); }

 private:
  struct Run {
    std::size_t row;
    std::int64_t step;
    std::int64_t stride;
  };
  std::vector<Run> runs_;
  std::size_t size_ = 0;
};

}  // namespace moescope
