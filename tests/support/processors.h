// Calls a function with each set of vector instructions of this processor, including the scalar baseline.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace moescope {

using Bits = std::vector<std::uint32_t>;

// Appends the bits of the values. All NaNs become the same bits.
inline void append(Bits& bits, const std::vector<float>& values) {
  for (const float v : values) bits.push_back(std::isnan(v) ? 0x7FC00000u : std::bit_cast<std::uint32_t>(v));
}
inline void append(Bits& bits, const std::vector<double>& values) {
  for (const double v : values) {
    const auto word = std::isnan(v) ? 0 : std::bit_cast<std::uint64_t>(v);
    bits.push_back(static_cast<std::uint32_t>(word));
    bits.push_back(static_cast<std::uint32_t>(word >> 32));
  }
}
// Runs `body` once with each set of instructions.
inline void for_each_processor(const std::function<void()>& body) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const std::int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    ASSERT_EQ(hwy::SupportedTargets(), target);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}
inline void expect_same_bits_everywhere(const std::function<Bits()>& results) {
  const Bits want = results();
  for_each_processor([&] { EXPECT_EQ(results(), want); });
}

}  // namespace moescope
