#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/recipes.h"
#include "core/numerics/scale_rules.h"
#include "tests/support/every_format.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

// An independent encoder ---------------------------------------------------------------------------------------------

// Returns the value of the format nearest to `y` by trying every code; of two, that with the even code.
double nearest_value(ElementFormat format, double y) {
  const int codes = 1 << (traits(format).bits - 1);
  double best = 0, best_error = INFINITY;
  for (int code = 0; code < codes; ++code) {
    const double value = decode(format, static_cast<std::uint8_t>(code));
    if (!std::isfinite(value)) continue;
    const double error = std::fabs(std::fabs(y) - value);
    if (error < best_error || (error == best_error && code % 2 == 0)) {
      best = value;
      best_error = error;
    }
  }
  return std::copysign(best, y);
}

// Moves |y| by a share of b - a, where a < b are its neighbors in the format; the share is the draw as a signed number,
// from -1/2 to 1/2. Returns the neighbor nearer to the sum, which is of float32; in the middle, the one with the even
// code. Returns the largest value if |y| is above it.
double drawn_value(ElementFormat format, float y, std::uint32_t bits16) {
  const int codes = 1 << (traits(format).bits - 1);
  double a = 0, b = INFINITY;
  bool a_even = true;
  const float magnitude = std::fabs(y);
  for (int code = 0; code < codes; ++code) {
    const double value = decode(format, static_cast<std::uint8_t>(code));
    if (!std::isfinite(value)) continue;
    if (value <= magnitude && value >= a) {
      a = value;
      a_even = code % 2 == 0;
    }
    if (value > magnitude) b = std::min(b, value);
  }
  if (!std::isfinite(b)) return std::copysign(a, y);
  const double share = (static_cast<std::int16_t>(bits16) + 0.5) * 0x1p-16, middle = (a + b) / 2;
  const float sum = magnitude + static_cast<float>(share * (b - a));
  return std::copysign(sum > middle || (sum == middle && !a_even) ? b : a, y);
}

// Returns the 16 bits of an element's draw, by the definition in rng.h: SplitMix64's finalizer for (seed,
// stream, row), two rounds of multiply and xorshift for the column, one multiplication for both.
std::uint32_t draw_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t row, std::uint32_t column) {
  const auto finalize = [](std::uint64_t z) {
    z += 0x9E3779B97F4A7C15ull;
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9ull;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBull;
    return z ^ z >> 31;
  };
  const std::uint64_t key = finalize(finalize(finalize(seed) ^ stream) ^ row);
  std::uint32_t h = column;
  h ^= h >> 16;
  h *= 0x7FEB352Du;
  h ^= h >> 15;
  h *= 0x846CA68Bu;
  h ^= h >> 16;
  h ^= static_cast<std::uint32_t>(key >> 32);
  return h * (static_cast<std::uint32_t>(key) | 1) >> 16;
}

// Returns the extent of a block (rows, cols), with the contracting dimension along rows.
std::pair<std::size_t, std::size_t> extent(const OperandFormat& f, const TestMatrix& m) {
  if (f.scheme == QuantScheme::mx) return {1, static_cast<std::size_t>(f.block)};
  if (f.scheme == QuantScheme::nvfp4) return {1, 16};
  switch (f.granularity) {
    case ScaleGranularity::tensor:
      return {m.rows, m.cols};
    case ScaleGranularity::row:
      return {1, m.cols};
    case ScaleGranularity::block_1x128:
      return {1, 128};
    case ScaleGranularity::block_128x128:
      return {128, 128};
  }
  return {};
}

float largest(const TestMatrix& m) {
  float amax = 0;
  for (const float x : m.v) amax = std::isfinite(x) ? std::max(amax, std::fabs(x)) : NAN;
  return amax;
}

struct Figures {
  double x2 = 0, q2 = 0, xq = 0, err2 = 0, crest = 0;
  std::uint64_t underflow = 0, clipped = 0, blocks = 0, clipped_blocks = 0, nonzero = 0;
  std::array<std::uint32_t, 256> histogram{};
};

constexpr std::uint64_t kSeed = 77, kStream = 12;  // of stochastic rounding

// Quantizes one block by the definitions in quantize.h, in double except where they require float32.
void encode_block(const OperandFormat& f, float tensor_amax, const TestMatrix& in, std::size_t r0, std::size_t r1,
                  std::size_t c0, std::size_t c1, TestMatrix& out, Figures& s) {
  float amax = 0;
  bool finite = f.scheme != QuantScheme::nvfp4 || std::isfinite(tensor_amax);
  for (std::size_t r = r0; r < r1; ++r)
    for (std::size_t c = c0; c < c1; ++c) {
      finite &= std::isfinite(in.at(r, c));
      amax = std::max(amax, std::fabs(in.at(r, c)));
    }
  float e = 0, scale = 0;
  if (f.scheme == QuantScheme::fp8) {
    e = static_cast<float>(static_cast<double>(traits(f.element).max) / std::max<double>(amax, 1e-12f));
    if (f.power_of_two_scale) e = static_cast<float>(std::exp2(std::floor(std::log2(static_cast<double>(e)))));
    scale = 1.0f / e;
  } else if (f.scheme == QuantScheme::nvfp4) {
    const float t = std::max(tensor_amax / 2688.0f, 0x1p-120f);
    const float unrounded = amax / 6.0f / t;
    scale = t * static_cast<float>(nearest_value(ElementFormat::e4m3, std::clamp(unrounded, 0x1p-6f, 448.0f)));
  } else {
    const int code = scale_code(f.rule, f.element, amax);
    scale = std::ldexp(1.0f, code - 127);
    e = std::ldexp(1.0f, 127 - code);
  }
  ++s.blocks;
  ++s.histogram[static_cast<std::size_t>(finite ? std::floor(std::log2(scale)) + 127 : 255)];
  double x2 = 0, y_max = 0;
  for (std::size_t r = r0; r < r1; ++r)
    for (std::size_t c = c0; c < c1; ++c) {
      const float x = in.at(r, c);
      s.nonzero += x != 0;
      if (!finite) {
        out.at(r, c) = NAN;
        continue;
      }
      const float y = f.scheme == QuantScheme::nvfp4 ? x / scale : x * e;
      const bool drawn = f.rounding == Rounding::stochastic;
      const std::uint32_t bits16 = drawn ? draw_bits(kSeed, kStream, r, static_cast<std::uint32_t>(c)) : 0;
      const float q =
          static_cast<float>(drawn ? drawn_value(f.element, y, bits16) : nearest_value(f.element, y)) * scale;
      out.at(r, c) = q;
      y_max = std::max(y_max, std::fabs(static_cast<double>(y)));
      x2 += static_cast<double>(x) * x;
      s.q2 += static_cast<double>(q) * q;
      s.xq += static_cast<double>(x) * q;
      s.err2 += (static_cast<double>(x) - q) * (static_cast<double>(x) - q);
      s.underflow += x != 0 && q == 0;
      s.clipped += f.scheme != QuantScheme::fp8 && std::fabs(y) > traits(f.element).max;
    }
  s.x2 += x2;
  s.clipped_blocks += f.scheme != QuantScheme::fp8 && y_max > traits(f.element).max;
  if (x2 > 0) s.crest += amax / std::sqrt(x2 / static_cast<double>((r1 - r0) * (c1 - c0)));
}

TestMatrix encode_by_definition(const OperandFormat& f, const TestMatrix& in, Figures& s) {
  TestMatrix out(in.rows, in.cols);
  const auto [h, w] = extent(f, in);
  for (std::size_t r = 0; r < in.rows; r += h)
    for (std::size_t c = 0; c < in.cols; c += w)
      encode_block(f, largest(in), in, r, std::min(r + h, in.rows), c, std::min(c + w, in.cols), out, s);
  return out;
}

// Data ---------------------------------------------------------------------------------------------------------------

// Blocks of very different size, zeros and subnormals: the worst that tensors of a training contain.
TestMatrix awkward_matrix(std::size_t rows, std::size_t cols) {
  TestMatrix m = normal_matrix(rows, cols, 2);
  std::mt19937 generator(3);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) {
      m.at(r, c) *= std::ldexp(1.0f, static_cast<int>(r * 7 + c / 16 * 5) % 40 - 20);
      if (generator() % 11 == 0) m.at(r, c) = generator() % 2 ? 0.0f : -0.0f;
      if (r % 16 == 3) m.at(r, c) = 0;
      if (r % 16 == 5) m.at(r, c) *= 1e-39f;
    }
  return m;
}

std::vector<OperandFormat> all_scaled() {
  std::vector<OperandFormat> formats{kNvfp4};
  for (const ElementFormat element : {ElementFormat::e4m3, ElementFormat::e5m2})
    for (const ScaleGranularity g : {ScaleGranularity::tensor, ScaleGranularity::row, ScaleGranularity::block_1x128,
                                     ScaleGranularity::block_128x128})
      for (const bool power_of_two : {false, true}) formats.push_back(fp8(element, g, power_of_two));
  for (const ElementFormat element : kEveryFormat)
    if (traits(element).exponent_bits > 0) formats.push_back(mx(element));
  return formats;
}

void check_against_definition(const OperandFormat& f, const TestMatrix& in, bool figures) {
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
    const std::string what = describe(f, axis);
    Figures want;
    QuantSums found;
    const TestMatrix expected = encode_by_definition(f, in, want);
    const bool along = axis == BlockAxis::row;
    const TestMatrix stored = along ? in : transposed(in);
    const TestMatrix out = quantized(f, stored, axis, {}, &found);
    expect_same_values(along ? out : transposed(out), expected, what);
    expect_same_values(quantized(f, stored, axis), out, what + " without statistics");
    EXPECT_EQ(found.blocks, want.blocks) << what;
    EXPECT_EQ(found.elements, in.v.size()) << what;
    EXPECT_EQ(found.nonzero, want.nonzero) << what;
    EXPECT_EQ(found.underflow, want.underflow) << what;
    EXPECT_EQ(found.clipped, want.clipped) << what;
    EXPECT_EQ(found.clipped_blocks, want.clipped_blocks) << what;
    EXPECT_EQ(found.e8m0_blocks, want.histogram) << what;
    if (!figures) continue;
    expect_near_relative(found.x2, want.x2, what + " x2");
    expect_near_relative(found.q2, want.q2, what + " q2");
    expect_near_relative(found.xq, want.xq, what + " xq");
    expect_near_relative(found.err2, want.err2, what + " err2");
    expect_near_relative(found.crest, want.crest, what + " crest");
  }
}

TEST(OperandFormat, EveryQuantizerMatchesItsDefinition) {
  for (const OperandFormat& f : all_scaled()) {
    check_against_definition(f, normal_matrix(130, 144), true);
    check_against_definition(f, normal_matrix(3, 1100), true);  // more columns than one tile
    check_against_definition(f, normal_matrix(5, 37), true);    // blocks do not divide it
    check_against_definition(f, awkward_matrix(33, 272), false);
  }
}

TEST(OperandFormat, ColumnsTooLongForTheCachesToo) {
  for (const bool power_of_two : {false, true}) {
    const OperandFormat f = fp8(ElementFormat::e4m3, ScaleGranularity::row, power_of_two);
    TestMatrix in = normal_matrix(300, 700);  // by columns: two batches of columns, six tiles of rows
    check_against_definition(f, in, true);
    in.at(270, 650) = NAN;
    check_against_definition(f, in, false);
    check_against_definition(f, awkward_matrix(40, 1030), false);
  }
}

TEST(OperandFormat, RotatedColumnsTooLongForTheCachesToo) {
  constexpr std::size_t kRows = 700, kCols = 300;  // blocks that are not whole at the end; two batches of columns
  for (const int n : {16, 128})
    for (const float first : {1.0f, 0.0f, NAN}) {
      OperandFormat f = fp8(ElementFormat::e4m3, ScaleGranularity::row), plain = f;
      f.hadamard = n;
      TestMatrix in = normal_matrix(kRows, kCols), rotated(kRows, kCols);
      in.at(650, 270) = first;
      hadamard_rotate(in.view(), BlockAxis::column, {n}, 0, rotated.view());
      QuantSums found, want;
      const TestMatrix out = quantized(f, in, BlockAxis::column, {}, &found);
      const std::string what = describe(f, BlockAxis::column) + " " + std::to_string(first);
      expect_same_values(out, quantized(plain, rotated, BlockAxis::column, {}, &want), what);
      expect_same_values(quantized(f, in, BlockAxis::column), out, what + " without statistics");
      EXPECT_EQ(found.underflow, want.underflow) << what;
      EXPECT_EQ(found.e8m0_blocks, want.e8m0_blocks) << what;
      expect_near_relative(found.err2, want.err2, what + " err2");
      expect_near_relative(found.crest, want.crest, what + " crest");
    }
}

TEST(OperandFormat, MxSpecialRulesGoThroughToo) {
  for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::even, ScaleRule::ceil})
    check_against_definition(mx(ElementFormat::e4m3, rule), normal_matrix(40, 96), true);
}

TEST(OperandFormat, Nvfp4FarFromOneGoesThroughToo) {
  for (const int exponent : {-75, -45, 45, 60}) {
    TestMatrix in = normal_matrix(3, 1100);
    for (float& x : in.v) x = std::ldexp(x, exponent);
    check_against_definition(kNvfp4, in, true);
  }
  TestMatrix in = normal_matrix(9, 512);
  for (std::size_t c = 0; c < 256; ++c) in.at(4, c) = std::ldexp(in.at(4, c), -70);  // this group becomes zero
  check_against_definition(kNvfp4, in, true);
}

// Quantizes a tensor as a whole, with results that bypass the caches if they are aligned, and in small pieces.
TEST(OperandFormat, LargeTensorsAreQuantizedAsSmallOnes) {
  constexpr std::size_t kRows = 1024, kCols = 2048, kStripe = 128;
  TestMatrix in = normal_matrix(kRows, kCols);
  for (std::uint32_t c = 0; c < kCols; c += 5) in.at(300, c) = c % 2 ? -0.0f : 0.0f;
  const auto zeros = static_cast<std::uint64_t>(std::count(in.v.begin(), in.v.end(), 0.0f));
  TestMatrix spoilt = in;
  spoilt.at(300, 1100) = NAN;
  OperandFormat rotated = fp8(ElementFormat::e4m3, ScaleGranularity::tensor), drawn = kNvfp4;
  rotated.hadamard = 32;
  drawn.rounding = Rounding::stochastic;
  const std::unique_ptr<float, decltype(&std::free)> memory(
      static_cast<float*>(std::aligned_alloc(64, (kRows * kCols + 64) * sizeof(float))), &std::free);
  for (const OperandFormat& f :
       {kNvfp4, drawn, mx(ElementFormat::e4m3), rotated, fp8(ElementFormat::e4m3, ScaleGranularity::block_128x128)})
    for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
      const float amax = operand_amax({in.view(), f, axis});
      const auto by_stripe = [&](const TestMatrix& from, TestMatrix& to) {
        QuantSums sums;
        for (std::uint32_t r = 0; r < kRows; r += kStripe)
          quantize_operand({{&from.v[r * kCols], kStripe, kCols, kCols}, f, axis, {3, 4, r, 0}, &sums, amax},
                           {&to.at(r, 0), kStripe, kCols});
        return sums;
      };
      TestMatrix want(kRows, kCols), out_of_spoilt(kRows, kCols);
      QuantSums expected = by_stripe(in, want);
      const auto bytes = [](const float* matrix) { return std::as_bytes(std::span(matrix, kRows * kCols)); };
      for (const std::size_t offset : {0, 4, 8, 1}) {  // aligned to a cache line, to parts of it, and not
        const std::string what = describe(f, axis) + " offset " + std::to_string(offset);
        float* out = memory.get() + offset;
        QuantSums sums;
        quantize_operand({in.view(), f, axis, {3, 4}, &sums}, {out, in.rows, in.cols, kCols});
        ASSERT_TRUE(std::ranges::equal(bytes(out), bytes(want.v.data()))) << what;
        EXPECT_EQ(sums.nonzero, f.hadamard ? expected.nonzero : kRows * kCols - zeros) << what;
        EXPECT_EQ(sums.underflow, expected.underflow) << what;
        EXPECT_EQ(sums.clipped, expected.clipped) << what;
        expect_near_relative(sums.err2, expected.err2, what + " err2");
        expect_near_relative(sums.x2, expected.x2, what + " x2");
      }
      expected = by_stripe(spoilt, want);
      QuantSums sums;
      quantize_operand({spoilt.view(), f, axis, {3, 4}, &sums, amax}, {memory.get(), spoilt.rows, spoilt.cols, kCols});
      std::copy_n(memory.get(), kRows * kCols, out_of_spoilt.v.begin());
      expect_same_values(out_of_spoilt, want, describe(f, axis) + " with NaN");
      EXPECT_EQ(sums.underflow, expected.underflow) << describe(f, axis);
    }
}

// Values far above what their scale can represent become the largest value, in many blocks at a time and in pieces that
// are too narrow for that.
TEST(OperandFormat, Nvfp4SaturatesUnderAnAmaxThatIsTooSmall) {
  constexpr std::size_t kRows = 16, kCols = 768, kPiece = 48;
  const TestMatrix in = normal_matrix(kRows, kCols);
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
    for (const float share : {1.0f, 0.95f, 0.5f, 0.01f}) {
      const float amax = share * operand_amax({in.view(), kNvfp4, axis});
      TestMatrix out(kRows, kCols), want(kRows, kCols);
      QuantSums sums, expected;
      quantize_operand({in.view(), kNvfp4, axis, {}, &sums, amax}, {out.v.data(), in.rows, in.cols, kCols});
      for (std::uint32_t c = 0; c < kCols; c += kPiece)
        quantize_operand({{&in.v[c], kRows, kPiece, kCols}, kNvfp4, axis, {0, 0, 0, c}, &expected, amax},
                         {&want.at(0, c), kRows, kPiece, kCols});
      const std::string what = describe(kNvfp4, axis) + " share " + std::to_string(share);
      expect_same_values(out, want, what);
      EXPECT_EQ(sums.clipped, expected.clipped) << what;
      EXPECT_EQ(sums.e8m0_blocks, expected.e8m0_blocks) << what;
      expect_near_relative(sums.err2, expected.err2, what + " err2");
      for (const float v : out.v) ASSERT_LE(std::fabs(v), amax * 1.0001f) << what;
    }
}

TEST(OperandFormat, NanAndInfinityMakeTheirScaleNan) {
  for (const OperandFormat& f : all_scaled()) {
    for (const float bad : {NAN, INFINITY}) {
      TestMatrix in = normal_matrix(20, 160);
      in.at(7, 70) = bad;
      check_against_definition(f, in, false);
    }
  }
}

TEST(OperandFormat, ZeroTensorStaysZero) {
  TestMatrix zeros(32, 64);
  zeros.at(1, 1) = -0.0f;
  for (const OperandFormat& f : all_scaled()) {
    QuantSums sums;
    expect_same_values(quantized(f, zeros, BlockAxis::row, {}, &sums), zeros, describe(f, BlockAxis::row));
    EXPECT_EQ(sums.underflow, 0u);
    EXPECT_EQ(sums.err2, 0);
  }
}

// A block of zeros has the scale 1, which is far above the scales of tiny values.
TEST(OperandFormat, ZerosBesideTinyValuesAddNothing) {
  TestMatrix in = normal_matrix(32, 96);
  for (float& x : in.v) x *= 1e-35f;
  for (std::size_t c = 32; c < 64; ++c) in.at(5, c) = 0;
  for (std::size_t r = 0; r < in.rows; ++r) in.at(r, 40) = 0;
  double x2 = 0;
  for (const float x : in.v) x2 += static_cast<double>(x) * x;
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
    QuantSums sums;
    quantized(mx(ElementFormat::e4m3), in, axis, {}, &sums);
    EXPECT_NEAR(sums.x2 / x2, 1, 1e-5);
    EXPECT_NEAR(sums.sqnr_db(), 31.5, 1);
  }
}

TEST(OperandFormat, Bf16RoundsAndCounts) {
  TestMatrix in = normal_matrix(9, 50);
  in.at(3, 3) = NAN;
  in.at(4, 4) = -INFINITY;
  in.at(5, 5) = 3.4e38f;
  in.at(6, 6) = 0;
  QuantSums sums;
  const TestMatrix out = quantized(kBf16, in, BlockAxis::row, {}, &sums);
  for (std::size_t i = 0; i < in.v.size(); ++i) {
    const float want = bf16_rounded(in.v[i]);
    EXPECT_TRUE(want == out.v[i] || std::isnan(want));
  }
  EXPECT_TRUE(std::isnan(out.at(3, 3)));
  EXPECT_EQ(out.at(4, 4), -INFINITY);
  EXPECT_EQ(sums.clipped, 1u);  // 3.4e38 is above bfloat16's largest number
  EXPECT_EQ(sums.nonzero, in.v.size() - 1);
  EXPECT_EQ(sums.blocks, 0u);
  QuantSums clean;
  const TestMatrix normal = normal_matrix(64, 100);
  quantized(kBf16, normal, BlockAxis::row, {}, &clean);
  EXPECT_NEAR(clean.sqnr_db(), 55.6, 0.3);  // 8 bits of significand: 6.02 * 8 + 7.4 dB
}

// Squares of values near 1 are added as they are, those of other values in a unit of their own.
TEST(OperandFormat, Bf16CountsAtEverySize) {
  for (const int exponent : {-115, -70, -61, -58, -49, -46, -20, 0, 40, 48, 52, 90, 125}) {
    TestMatrix in = normal_matrix(20, 80);
    double x2 = 0, q2 = 0, err2 = 0;
    for (float& x : in.v) {
      x = std::ldexp(std::copysign(0.5f + std::fabs(x) / 8, x), exponent);
      const double q = bf16_rounded(x);
      x2 += static_cast<double>(x) * x;
      q2 += q * q;
      err2 += (x - q) * (x - q);
    }
    QuantSums sums;
    const TestMatrix out = quantized(kBf16, in, BlockAxis::row, {}, &sums);
    const std::string what = "at 2^" + std::to_string(exponent);
    for (std::size_t i = 0; i < in.v.size(); ++i) EXPECT_EQ(out.v[i], bf16_rounded(in.v[i])) << what;
    EXPECT_EQ(sums.nonzero, in.v.size()) << what;
    EXPECT_EQ(sums.amax, largest(in)) << what;
    expect_near_relative(sums.x2, x2, what + " x2");
    expect_near_relative(sums.q2, q2, what + " q2");
    expect_near_relative(sums.err2, err2, what + " err2");
  }
}

TEST(OperandFormat, Fp32IsExact) {
  const TestMatrix in = normal_matrix(7, 19);
  QuantSums sums;
  expect_same_values(quantized({}, in, BlockAxis::column, {}, &sums), in, "fp32");
  EXPECT_EQ(sums.err2, 0);
  EXPECT_EQ(sums.sqnr_db(), INFINITY);
}

TEST(OperandFormat, LevelsOnGaussianData) {
  const TestMatrix in = normal_matrix(512, 1024);
  const auto level = [&](const OperandFormat& f) {
    QuantSums sums;
    quantized(f, in, BlockAxis::row, {}, &sums);
    return sums.sqnr_db();
  };
  EXPECT_NEAR(level(mx(ElementFormat::e4m3)), 31.5, 0.1);
  EXPECT_NEAR(level(mx(ElementFormat::e5m2)), 25.6, 0.1);
  EXPECT_NEAR(level(mx(ElementFormat::e2m3)), 31.0, 0.1);
  EXPECT_NEAR(level(mx(ElementFormat::e3m2)), 25.6, 0.1);
  EXPECT_NEAR(level(mx(ElementFormat::e2m1)), 18.8, 0.1);
  // With three mantissa bits the level hardly depends on the scale, and only a little on where the largest values land.
  EXPECT_NEAR(level(fp8(ElementFormat::e4m3, ScaleGranularity::tensor)), 31.5, 0.4);
  EXPECT_NEAR(level(fp8(ElementFormat::e4m3, ScaleGranularity::block_1x128)), 31.5, 0.4);
  EXPECT_GT(level(kNvfp4), level(mx(ElementFormat::e2m1)) + 1.0);  // blocks of 16, scales with a mantissa
}

// Stochastic rounding ------------------------------------------------------------------------------------------------

std::vector<OperandFormat> all_stochastic() {
  std::vector<OperandFormat> formats = all_scaled();
  formats.push_back(kBf16);
  for (OperandFormat& f : formats) f.rounding = Rounding::stochastic;
  return formats;
}

TEST(StochasticRounding, IsUnbiasedAndGivesANeighbour) {
  const TestMatrix in = normal_matrix(16, 128);
  constexpr int kDraws = 400;
  for (OperandFormat f : all_stochastic()) {
    if (f.scheme == QuantScheme::nvfp4) continue;  // clips by design: tested below
    std::vector<double> mean(in.v.size()), spread(in.v.size());
    for (int draw = 0; draw < kDraws; ++draw) {
      const TestMatrix q = quantized(f, in, BlockAxis::row, {static_cast<std::uint64_t>(draw), 5});
      for (std::size_t i = 0; i < in.v.size(); ++i) {
        const double error = static_cast<double>(q.v[i]) - in.v[i];
        mean[i] += error / kDraws;
        spread[i] += error * error / kDraws;
      }
    }
    // Without bias, the mean of the squared means is the variance over kDraws, and the means cancel over elements.
    double mean_squares = 0, sum = 0, variance = 0;
    for (std::size_t i = 0; i < in.v.size(); ++i) {
      sum += mean[i];
      variance += spread[i] / kDraws;
      mean_squares += mean[i] * mean[i];
    }
    const std::string what = describe(f, BlockAxis::row);
    EXPECT_GT(variance, 0) << what;
    EXPECT_NEAR(mean_squares / variance, 1.0, 0.25) << what;
    EXPECT_LT(std::fabs(sum), 4 * std::sqrt(variance)) << what;
  }
}

TEST(StochasticRounding, EveryDrawIsThatOfTheDefinition) {
  for (const TestMatrix& in : {normal_matrix(40, 160, 9), awkward_matrix(40, 160)})
    for (const OperandFormat& f : all_stochastic()) {
      const TestMatrix found = quantized(f, in, BlockAxis::row, {kSeed, kStream});
      Figures figures;
      TestMatrix want(in.rows, in.cols);
      if (f.scheme != QuantScheme::bf16) {
        want = encode_by_definition(f, in, figures);
      } else {
        for (std::size_t r = 0; r < in.rows; ++r)
          for (std::size_t c = 0; c < in.cols; ++c) {
            const std::uint32_t draw = draw_bits(kSeed, kStream, r, static_cast<std::uint32_t>(c));
            want.at(r, c) = std::bit_cast<float>((std::bit_cast<std::uint32_t>(in.at(r, c)) + draw) & 0xFFFF0000u);
          }
      }
      expect_same_values(found, want, "drawn " + describe(f, BlockAxis::row));
    }
}

TEST(StochasticRounding, NextToNearestByAtMostOneStep) {
  const TestMatrix in = normal_matrix(16, 128);
  OperandFormat nearest = kNvfp4, stochastic = kNvfp4;
  stochastic.rounding = Rounding::stochastic;
  QuantSums near, random;
  quantized(nearest, in, BlockAxis::row, {}, &near);
  const TestMatrix q = quantized(stochastic, in, BlockAxis::row, {1, 2}, &random);
  EXPECT_EQ(near.e8m0_blocks, random.e8m0_blocks);
  EXPECT_EQ(near.clipped, random.clipped);
  EXPECT_GT(random.err2, 1.5 * near.err2);  // twice, if values are evenly spread between neighbors
  EXPECT_LT(random.err2, 2.5 * near.err2);
  EXPECT_FALSE(q.v == quantized(nearest, in, BlockAxis::row).v);
}

TEST(StochasticRounding, SameKeySameBitsOtherKeyOtherBits) {
  const TestMatrix in = normal_matrix(64, 96);
  for (const OperandFormat& f : all_stochastic()) {
    const TestMatrix a = quantized(f, in, BlockAxis::column, {7, 1});
    EXPECT_TRUE(a.v == quantized(f, in, BlockAxis::column, {7, 1}).v);
    EXPECT_FALSE(a.v == quantized(f, in, BlockAxis::column, {8, 1}).v);
    EXPECT_FALSE(a.v == quantized(f, in, BlockAxis::column, {7, 2}).v);
  }
}

TEST(StochasticRounding, TilesChangeNothing) {
  const TestMatrix in = normal_matrix(256, 384);
  for (const OperandFormat& f : all_stochastic()) {
    for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
      const bool whole_rows = f.scheme == QuantScheme::fp8 && f.granularity == ScaleGranularity::row;
      const std::size_t h = whole_rows && axis == BlockAxis::column ? 256 : 128;
      const std::size_t w = whole_rows && axis == BlockAxis::row ? 384 : 128;
      TestMatrix out(in.rows, in.cols);
      for (std::uint32_t r = 0; r < in.rows; r += static_cast<std::uint32_t>(h))
        for (std::uint32_t c = 0; c < in.cols; c += static_cast<std::uint32_t>(w))
          quantize_operand({{&in.v[r * in.cols + c], h, w, in.cols},
                            f,
                            axis,
                            {3, 4, r, c},
                            nullptr,
                            operand_amax({in.view(), f, axis})},
                           {&out.at(r, c), h, w, out.cols});
      expect_same_values(out, quantized(f, in, axis, {3, 4}), "tiles of " + describe(f, axis));
    }
  }
}

// Each of the 15 recipes, for each of the six operands, with and without rotation, equals the definition applied to the
// rotated matrix, which is not rotated back.
TEST(EveryRecipe, OfEachOperandIsItsDefinition) {
  const TestMatrix in = awkward_matrix(40, 160), gaussian = normal_matrix(33, 256, 8);
  const std::pair<Direction, OperandRole> operands[] = {
      {Direction::forward, OperandRole::x}, {Direction::forward, OperandRole::w}, {Direction::dgrad, OperandRole::dy},
      {Direction::dgrad, OperandRole::w},   {Direction::wgrad, OperandRole::dy},  {Direction::wgrad, OperandRole::x}};
  for (const RecipeInfo& info : recipes())
    for (const auto& [direction, operand] : operands)
      for (const int hadamard : {0, 32}) {
        OperandFormat f = recipe_format(info.recipe, direction, operand);
        f.hadamard = hadamard;
        if (f.scheme == QuantScheme::fp32 || f.scheme == QuantScheme::bf16) continue;  // have their own tests
        for (const TestMatrix& m : {in, gaussian}) {
          const std::string what = std::string(info.name) + ", operand " + std::to_string(static_cast<int>(operand)) +
                                   " of " + direction_name(direction) + ", rotation " + std::to_string(f.hadamard);
          const RoundingKey key{.rotation_seed = 9};
          const TestMatrix turned = f.hadamard ? rotated(m, BlockAxis::row, f.hadamard) : m;
          Figures want;
          QuantSums found;
          expect_same_values(quantized(f, m, BlockAxis::row, key, &found), encode_by_definition(f, turned, want), what);
          EXPECT_EQ(found.underflow, want.underflow) << what;
          EXPECT_EQ(found.clipped, want.clipped) << what;
          EXPECT_EQ(found.e8m0_blocks, want.histogram) << what;
          const TestMatrix columns = quantized(f, transposed(m), BlockAxis::column, key);
          expect_same_values(transposed(columns), encode_by_definition(f, turned, want), what + ", down columns");
        }
      }
}

// If the result is not the nearest value, it is the neighbor on the other side.
TEST(EveryRecipe, StochasticRoundingGivesANeighbourOfTheDefinition) {
  const TestMatrix in = normal_matrix(24, 256, 11);
  for (OperandFormat f : all_stochastic()) {
    if (f.scheme == QuantScheme::bf16) continue;
    OperandFormat nearest = f;
    nearest.rounding = Rounding::nearest;
    const TestMatrix near = quantized(nearest, in, BlockAxis::row);
    for (int draw = 0; draw < 20; ++draw) {
      const TestMatrix q = quantized(f, in, BlockAxis::row, {static_cast<std::uint64_t>(draw), 3});
      for (std::size_t i = 0; i < q.v.size(); ++i) {
        if (q.v[i] == near.v[i]) continue;
        const double x = in.v[i], error = std::fabs(q.v[i] - x), smallest_error = std::fabs(near.v[i] - x);
        EXPECT_GE(error * (1 + 1e-6), smallest_error) << describe(f, BlockAxis::row) << " at " << i;
        EXPECT_EQ(q.v[i] > x, near.v[i] < x) << describe(f, BlockAxis::row) << " at " << i;  // on the other side
      }
    }
  }
}

}  // namespace
