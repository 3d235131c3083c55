// A growing series that gives min, max and mean of any slice in time logarithmic in the slice's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moescope {

// A slice of a series. NaN and Inf are counted, never folded into min, max or mean.
struct PyramidBin {
  float min = 0, max = 0;  // of the finite values; meaningless when finite == 0
  double sum = 0;
  std::uint32_t finite = 0;
  std::uint32_t non_finite = 0;
  std::uint32_t missing = 0;  // steps that carried no value (kNoValue appended as `missing`)
  float mean() const { return static_cast<float>(sum / finite); }
  void add(float value);
  void add(const PyramidBin& other);
};

// The series itself and, above it, one bin for every 16, 256, 4096, ... values: about 6 bytes a value. Old values can
// be dropped level by level: single values first, then bins of 16, ...; slices there count a bin where it begins.
class Pyramid {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void append(float value);         // O(log size), amortised O(1)
  void truncate(std::size_t size);  // forgets the values from index `size` on
  std::size_t size() const { return size_; }
  float operator[](std::size_t index) const;                            // where values were dropped: its bin's mean
  void copy(std::size_t first, std::size_t last, float* values) const;  // the same of [first, last)
  PyramidBin slice(std::size_t first,
                   std::size_t last) const;  // of [first, last), last <= size(); O(log(last - first))
  // Index of the newest value before `end` that is not missing, kNone: there is none.
  std::size_t last_present(std::size_t end) const;
  std::size_t bytes() const;
  // Drops the older half of the level that takes the most room; false: all levels are short already.
  bool forget_older_half();

 private:
  static constexpr std::size_t kFanOut = 16;
  static constexpr std::size_t kLeastKept = 512;  // entries of a level
  // Entry i of a level; a forgotten one is the 16th part of what is above it.
  PyramidBin entry(std::size_t level, std::size_t i) const;
  PyramidBin slice_at(std::size_t level, std::size_t first, std::size_t last) const;
  // No value has come so far: none is stored.
  bool is_blank() const { return size_ > 0 && values_.empty() && forgotten(0) == 0; }
  void store(float value);
  std::size_t forgotten(std::size_t level) const { return level < forgotten_.size() ? forgotten_[level] : 0; }

  std::size_t size_ = 0;
  std::vector<float> values_;                    // from forgotten(0) on; empty while all are missing
  std::vector<std::vector<PyramidBin>> levels_;  // full bins only: levels_[k] from forgotten(k + 1) on
  std::vector<std::size_t> forgotten_;           // by level, 0 the values; multiples of kFanOut; empty: nothing is
};

}  // namespace moescope
