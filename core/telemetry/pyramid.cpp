#include "core/telemetry/pyramid.h"

#include <algorithm>
#include <cmath>

#include "core/telemetry/frame.h"

namespace moescope {

void PyramidBin::add(float value) {
  if (std::isfinite(value)) {
    min = finite ? std::min(min, value) : value;
    max = finite ? std::max(max, value) : value;
    sum += value;
    ++finite;
  } else if (is_missing(value)) {
    ++missing;
  } else {
    ++non_finite;
  }
}

void PyramidBin::add(const PyramidBin& other) {
  if (other.finite) {
    min = finite ? std::min(min, other.min) : other.min;
    max = finite ? std::max(max, other.max) : other.max;
    sum += other.sum;
    finite += other.finite;
  }
  non_finite += other.non_finite;
  missing += other.missing;
}

void Pyramid::append(float value) {
  values_.push_back(value);
  std::size_t below = values_.size();
  for (std::size_t level = 0; below % kFanOut == 0; ++level) {
    if (level == levels_.size()) levels_.emplace_back();
    PyramidBin bin;
    for (std::size_t i = below - kFanOut; i < below; ++i) {
      if (level == 0) {
        bin.add(values_[i]);
      } else {
        bin.add(levels_[level - 1][i]);
      }
    }
    levels_[level].push_back(bin);
    below = levels_[level].size();
  }
}

void Pyramid::truncate(std::size_t size) {
  if (size >= values_.size()) return;
  values_.resize(size);
  for (auto& level : levels_) {
    size /= kFanOut;
    level.resize(size);
  }
}

PyramidBin Pyramid::slice(std::size_t first, std::size_t last) const {
  PyramidBin bin;
  const auto add = [&](std::size_t level, std::size_t begin, std::size_t end) {
    if (level == 0) {
      for (std::size_t i = begin; i < end; ++i) bin.add(values_[i]);
    } else {
      for (std::size_t i = begin; i < end; ++i) bin.add(levels_[level - 1][i]);
    }
  };
  for (std::size_t level = 0; first < last; ++level) {
    const std::size_t up_first = (first + kFanOut - 1) / kFanOut;
    const std::size_t up_last = last / kFanOut;
    if (up_first >= up_last) {
      add(level, first, last);
      break;
    }
    add(level, first, up_first * kFanOut);
    add(level, up_last * kFanOut, last);
    first = up_first;
    last = up_last;
  }
  return bin;
}

std::size_t Pyramid::last_present(std::size_t end) const {
  while (end > 0) {
    // The largest full bin that ends here and holds nothing is passed over at once.
    std::size_t skip = 0;
    std::size_t span = kFanOut;
    for (std::size_t level = 0; level < levels_.size() && end % span == 0; ++level, span *= kFanOut) {
      const PyramidBin& bin = levels_[level][end / span - 1];
      if (bin.finite + bin.non_finite) break;
      skip = span;
    }
    if (skip) {
      end -= skip;
    } else if (--end; !is_missing(values_[end])) {
      return end;
    }
  }
  return kNone;
}

std::size_t Pyramid::bytes() const {
  std::size_t bytes = values_.capacity() * sizeof(float);
  for (const auto& level : levels_) bytes += level.capacity() * sizeof(PyramidBin);
  return bytes;
}

}  // namespace moescope
