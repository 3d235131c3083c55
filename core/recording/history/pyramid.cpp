#include "core/recording/history/pyramid.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/frame/frame.h"

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

namespace {

// Grows by an eighth, because the history would exceed its budget if a thousand columns doubled at the same step.
template <class T>
void push(std::vector<T>& entries, const T& entry) {
  if (entries.size() == entries.capacity()) entries.reserve(entries.size() + entries.size() / 8 + 16);
  entries.push_back(entry);
}

}  // namespace

void Pyramid::append(float value) {
  if (is_missing(value) && (size_ == 0 || is_blank())) {
    ++size_;
    return;
  }
  if (is_blank())
    for (std::size_t blank = std::exchange(size_, 0); blank > 0; --blank) store(kNoValue);
  store(value);
}

void Pyramid::store(float value) {
  push(values_, value);
  std::size_t below = ++size_;
  for (std::size_t level = 0; below % kFanOut == 0; ++level) {
    if (level == levels_.size()) levels_.emplace_back();
    PyramidBin bin;
    for (std::size_t i = below - kFanOut; i < below; ++i) {
      if (level == 0) {
        bin.add(values_[i - forgotten(0)]);
      } else {
        bin.add(levels_[level - 1][i - forgotten(level)]);
      }
    }
    push(levels_[level], bin);
    below = forgotten(level + 1) + levels_[level].size();
  }
}

// If the values at the new end were dropped, builds the entries of the next bin from the means above them.
void Pyramid::truncate(std::size_t size) {
  if (size >= size_) return;
  if (is_blank()) {
    size_ = size;
    return;
  }
  if (size >= forgotten(0)) {
    values_.resize(size - forgotten(0));
  } else {
    const std::size_t base = size / kFanOut * kFanOut;
    std::vector<float> made;
    for (std::size_t i = base; i < size; ++i) made.push_back((*this)[i]);
    values_ = std::move(made);
    forgotten_[0] = base;
  }
  std::size_t entries = size / kFanOut;
  for (std::size_t level = 1; level <= levels_.size(); ++level, entries /= kFanOut) {
    std::vector<PyramidBin>& bins = levels_[level - 1];
    if (entries >= forgotten(level)) {
      bins.resize(entries - forgotten(level));
      continue;
    }
    const std::size_t base = entries / kFanOut * kFanOut;
    std::vector<PyramidBin> made;
    for (std::size_t i = base; i < entries; ++i) made.push_back(entry(level, i));
    bins = std::move(made);
    forgotten_[level] = base;
  }
  size_ = size;
}

PyramidBin Pyramid::entry(std::size_t level, std::size_t i) const {
  PyramidBin bin;
  if (i >= forgotten(level)) {
    if (level > 0) return levels_[level - 1][i - forgotten(level)];
    bin.add(values_[i - forgotten(0)]);
    return bin;
  }
  bin = entry(level + 1, i / kFanOut);
  const auto part = [i](std::uint32_t& count) {  // a 16th of `count`, rounded so that the 16 parts add up to it
    const std::size_t k = i % kFanOut;
    count = static_cast<std::uint32_t>((k + 1) * count / kFanOut - k * count / kFanOut);
  };
  const double mean = bin.finite ? bin.sum / bin.finite : 0;
  part(bin.finite);
  part(bin.non_finite);
  part(bin.missing);
  bin.sum = mean * bin.finite;
  return bin;
}

float Pyramid::operator[](std::size_t index) const {
  if (is_blank()) return kNoValue;
  if (index >= forgotten(0)) return values_[index - forgotten(0)];
  std::size_t level = 1;
  for (index /= kFanOut; index < forgotten(level); index /= kFanOut) ++level;
  const PyramidBin& bin = levels_[level - 1][index - forgotten(level)];
  if (bin.finite) return bin.mean();
  return bin.non_finite ? std::numeric_limits<float>::quiet_NaN() : kNoValue;
}

PyramidBin Pyramid::slice_at(std::size_t level, std::size_t first, std::size_t last) const {
  PyramidBin bin;
  if (first < forgotten(level) && first < last) {
    const std::size_t split = std::min(last, forgotten(level));
    bin.add(slice_at(level + 1, (first + kFanOut - 1) / kFanOut, (split + kFanOut - 1) / kFanOut));
    first = split;
  }
  const auto add = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) bin.add(entry(level, i));
  };
  const std::size_t up_first = (first + kFanOut - 1) / kFanOut;
  const std::size_t up_last = last / kFanOut;
  if (up_first >= up_last) {
    add(first, last);
  } else {
    add(first, up_first * kFanOut);
    bin.add(slice_at(level + 1, up_first, up_last));
    add(up_last * kFanOut, last);
  }
  return bin;
}

PyramidBin Pyramid::slice(std::size_t first, std::size_t last) const {
  PyramidBin bin;
  bin.missing = static_cast<std::uint32_t>(last - first);
  return is_blank() ? bin : slice_at(0, first, last);
}

std::size_t Pyramid::last_present(std::size_t end) const {
  if (is_blank()) return kNone;
  while (end > 0) {
    // Skips the largest full bin that ends here and holds no values.
    std::size_t skip = 0;
    std::size_t span = kFanOut;
    for (std::size_t level = 1; level <= levels_.size() && end % span == 0; ++level, span *= kFanOut) {
      const std::size_t at = end / span - 1;
      if (at < forgotten(level)) continue;
      const PyramidBin& bin = levels_[level - 1][at - forgotten(level)];
      if (bin.finite + bin.non_finite) break;
      skip = span;
    }
    if (skip) {
      end -= skip;
    } else if (--end; !is_missing((*this)[end])) {
      return end;
    }
  }
  return kNone;
}

bool Pyramid::forget_older_half() {
  std::size_t largest = 0;
  std::size_t largest_bytes = 0;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const std::size_t kept_values = level == 0 ? values_.size() : levels_[level - 1].size();
    const std::size_t bytes = kept_values * (level == 0 ? sizeof(float) : sizeof(PyramidBin));
    if (kept_values > 2 * kMinKept && bytes > largest_bytes) {
      largest_bytes = bytes;
      largest = level;
    }
  }
  if (largest_bytes == 0) return false;
  forgotten_.resize(std::max(forgotten_.size(), levels_.size() + 1));
  const std::size_t kept_values = largest == 0 ? values_.size() : levels_[largest - 1].size();
  const std::size_t target = forgotten_[largest] + kept_values / 2 / kFanOut * kFanOut;
  // Finer levels drop these values too, if they still have them.
  for (std::size_t level = 0; level <= largest; ++level) {
    const auto halve = [&](auto& entries, std::size_t until) {
      if (until <= forgotten_[level]) return;
      entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(until - forgotten_[level]));
      entries.shrink_to_fit();
      forgotten_[level] = until;
    };
    std::size_t until = target;
    for (std::size_t l = level; l < largest; ++l) until *= kFanOut;
    level == 0 ? halve(values_, until) : halve(levels_[level - 1], until);
  }
  return true;
}

std::size_t Pyramid::bytes() const {
  std::size_t bytes = values_.capacity() * sizeof(float) + forgotten_.capacity() * sizeof(std::size_t);
  for (const auto& level : levels_) bytes += level.capacity() * sizeof(PyramidBin);
  return bytes;
}

}  // namespace moescope
