// A growing series that returns min, max and mean of any slice in time logarithmic in the length of the slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/files/text/value_table.h"

namespace moescope {

// A slice of a series. NaN and Inf are counted, but not included in min, max and mean.
struct PyramidBin {
  float min = 0, max = 0;  // over the finite values; meaningless if finite == 0
  double sum = 0;
  std::uint32_t finite = 0;
  std::uint32_t non_finite = 0;
  std::uint32_t missing = 0;  // steps without a value (appended as kNoValue)
  float mean() const { return static_cast<float>(sum / finite); }
  void add(float value);
  void add(const PyramidBin& other);
};
// The mean of the finite values; NaN if all values are NaN or infinite.
inline TableValue table_value(const PyramidBin& bin) {
  if (bin.finite > 0) return bin.mean();
  return bin.non_finite > 0 ? TableValue(std::numeric_limits<float>::quiet_NaN()) : TableValue();
}

// The series and, above it, one bin for every 16, 256, 4096, ... values: about 6 bytes a value. Old values can
// be dropped level by level: first single values, then bins of 16, ... A slice that begins or ends in dropped values
// includes a bin if the bin's first value lies in the slice.
class Pyramid {
 public:
  static constexpr std::size_t kNone = -1;

  void append(float value);         // O(log size), amortised O(1)
  void truncate(std::size_t size);  // forgets the values from index `size` on
  std::size_t size() const { return size_; }
  float operator[](std::size_t index) const;  // mean of the bin if the value was dropped
  // Returns the bin of [first, last), last <= size(), in O(log(last - first)).
  PyramidBin slice(std::size_t first, std::size_t last) const;
  // Returns the index of the newest value before `end` that is not missing; kNone if there is no such value.
  std::size_t last_present(std::size_t end) const;
  std::size_t bytes() const;
  // Drops the older half of the level that takes the most memory; false if all levels are short already.
  bool forget_older_half();

 private:
  static constexpr std::size_t kFanOut = 16;
  static constexpr std::size_t kMinKept = 512;  // entries of a level that are never dropped
  // Returns entry i of a level; for a dropped entry, a 16th of the bin above it.
  PyramidBin entry(std::size_t level, std::size_t i) const;
  PyramidBin slice_at(std::size_t level, std::size_t first, std::size_t last) const;
  // True if all values so far are missing; none is stored then.
  bool is_blank() const { return size_ > 0 && values_.empty() && forgotten(0) == 0; }
  void store(float value);
  std::size_t forgotten(std::size_t level) const { return level < forgotten_.size() ? forgotten_[level] : 0; }

  std::size_t size_ = 0;
  std::vector<float> values_;                    // from index forgotten(0) on; empty while all values are missing
  std::vector<std::vector<PyramidBin>> levels_;  // full bins only; levels_[k] begins at forgotten(k + 1)
  std::vector<std::size_t> forgotten_;           // dropped entries by level, level 0: values; multiples of kFanOut
};

}  // namespace moescope
