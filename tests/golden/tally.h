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

  void code(std::size_t index, unsigned got, unsigned want) {
    char text[96];
    if (got != want) std::snprintf(text, sizeof text, "[%zu] is 0x%02X, expected 0x%02X", index, got, want);
    record(got == want, text);
  }
  void integer(std::size_t index, std::int64_t got, std::int64_t want) {
    char text[96];
    if (got != want)
      std::snprintf(text, sizeof text, "[%zu] is %lld, expected %lld", index, static_cast<long long>(got),
                    static_cast<long long>(want));
    record(got == want, text);
  }
  // Compares floats, which are equal if they have the same bits or are both NaN.
  void value(std::size_t index, float got, float want) {
    const bool same = std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(want) ||
                      (std::isnan(got) && std::isnan(want));
    error(std::isfinite(got) && std::isfinite(want) ? std::fabs(static_cast<double>(got) - want) : 0);
    char text[96];
    if (!same) std::snprintf(text, sizeof text, "[%zu] is %.9g, expected %.9g", index, got, want);
    record(same, text);
  }
  // Compares numbers, which are equal if they are at most `tolerance` apart and neither is NaN.
  void within(std::size_t index, double got, double want, double tolerance) {
    const double off = std::fabs(got - want);
    error(off);
    char text[128];
    const bool same = off <= tolerance;
    if (!same)
      std::snprintf(text, sizeof text, "[%zu] is %.9g, expected %.9g within %.3g", index, got, want, tolerance);
    record(same, text);
  }

  static inline std::size_t total_compared = 0, total_differ = 0;

 private:
  void error(double e) { largest_ = std::max(largest_, e); }
  void record(bool same, const char* text) {
    ++compared_;
    if (!same && ++differ_ == 1) first_ = text;
  }

  std::string what_, first_;
  std::size_t compared_ = 0, differ_ = 0;
  double largest_ = -1;
};

}  // namespace moescope
