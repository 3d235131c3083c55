// Counts the values of one kind in one file that a checker compared, and prints the first difference.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace moescope {

class Tally {
 public:
  explicit Tally(std::string what) : what_(std::move(what)) {}
  ~Tally() {
    std::printf("  %-36s %9zu compared, %zu differ", what_.c_str(), compared_, differ_);
    if (largest_ >= 0) std::printf(", largest error %.3g", largest_);
    if (differ_) std::printf("; first: %s", first_.c_str());
    std::printf("\n");
    total_differ += differ_;
    total_compared += compared_;
  }
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  void code(std::size_t index, unsigned found, unsigned want) {
    char text[96];
    if (found != want) std::snprintf(text, sizeof text, "[%zu] is 0x%02X, expected 0x%02X", index, found, want);
    record(found == want, text);
  }
  void integer(std::size_t index, std::int64_t found, std::int64_t want) {
    char text[96];
    if (found != want)
      std::snprintf(text, sizeof text, "[%zu] is %lld, expected %lld", index, static_cast<long long>(found),
                    static_cast<long long>(want));
    record(found == want, text);
  }
  // Compares floats, which are equal if they have the same bits or are both NaN.
  void value(std::size_t index, float found, float want) {
    const bool is_same = std::bit_cast<std::uint32_t>(found) == std::bit_cast<std::uint32_t>(want) ||
                         (std::isnan(found) && std::isnan(want));
    error(std::isfinite(found) && std::isfinite(want) ? std::fabs(static_cast<double>(found) - want) : 0);
    char text[96];
    if (!is_same) std::snprintf(text, sizeof text, "[%zu] is %.9g, expected %.9g", index, found, want);
    record(is_same, text);
  }
  // Compares numbers, which are equal if they are at most `tolerance` apart and neither is NaN.
  void within(std::size_t index, double found, double want, double tolerance) {
    const double off = std::fabs(found - want);
    error(off);
    char text[128];
    const bool is_same = off <= tolerance;
    if (!is_same)
      std::snprintf(text, sizeof text, "[%zu] is %.9g, expected %.9g within %.3g", index, found, want, tolerance);
    record(is_same, text);
  }

  static inline std::size_t total_compared = 0, total_differ = 0;

 private:
  void error(double e) { largest_ = std::max(largest_, e); }
  void record(bool is_same, const char* text) {
    ++compared_;
    if (!is_same && ++differ_ == 1) first_ = text;
  }

  std::string what_, first_;
  std::size_t compared_ = 0, differ_ = 0;
  double largest_ = -1;
};

}  // namespace moescope
