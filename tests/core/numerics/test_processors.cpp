// Every set of vector instructions that this processor has gives the same bits as the scalar baseline.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/core/numerics/test_processors.cpp"
#include <hwy/foreach_target.h>

#include "core/numerics/kernels/exponential.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/what_if.h"
#include "tests/support/processors.h"
#include "tests/support/sample_matrices.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

void exp_of_sixteen(const float* x, float* y) {
  store(y, exp_lanes(load(x)));
}

// True if the quotients of sixteen numbers by sixteen others are rounded once.
bool quotients_are_rounded_once(const float* a, const float* b) {
  const Floats reciprocal = splat(1.0f) / load(b);
  alignas(64) std::int32_t found[kSixteen], want[kSixteen];
  store(found, bits_as<std::int32_t>(quotient(load(a), load(b), reciprocal)));
  store(want, bits_as<std::int32_t>(load(a) / load(b)));
  return std::equal(found, found + kSixteen, want);
}

// Adds up sixteen rows of sixteen numbers, all together and one by one.
void sums_of_rows(const float* rows, float* together, float* single_sums) {
  store(together, joined_rows(rows, Sum()));
  for (std::size_t k = 0; k < kSixteen; ++k) single_sums[k] = sum_of(load(rows + k * kSixteen));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {
namespace {

HWY_EXPORT(exp_of_sixteen);
HWY_EXPORT(quotients_are_rounded_once);
HWY_EXPORT(sums_of_rows);

void append_sums(Bits& bits, const QuantSums& sums) {
  bits.insert(bits.end(), sums.e8m0_blocks.begin(), sums.e8m0_blocks.end());
  append(bits, std::vector<double>{sums.x2, sums.q2, sums.xq, sums.err2, sums.crest, static_cast<double>(sums.amax)});
  for (const std::uint64_t n :
       {sums.elements, sums.nonzero, sums.underflow, sums.clipped, sums.blocks, sums.clipped_blocks, sums.crest_blocks})
    bits.push_back(static_cast<std::uint32_t>(n));
}

std::vector<OperandFormat> formats() {
  std::vector<OperandFormat> all{{}, kBf16, kNvfp4};
  for (int element = 0; element < 6; ++element) all.push_back(mx(static_cast<ElementFormat>(element)));
  for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::even, ScaleRule::ceil})
    all.push_back(mx(ElementFormat::e4m3, rule));
  for (const ScaleGranularity g : {ScaleGranularity::tensor, ScaleGranularity::row, ScaleGranularity::block_1x128,
                                   ScaleGranularity::block_128x128})
    all.push_back(fp8(ElementFormat::e5m2, g));
  for (const Nvfp4Scaling& scaling : {Nvfp4Scaling{Nvfp4Rule::transformer_engine, true, FourOverSix::mae, 256},
                                      Nvfp4Scaling{Nvfp4Rule::transformer_engine}, Nvfp4Scaling{Nvfp4Rule::torchao}}) {
    all.push_back(kNvfp4);
    all.back().nvfp4 = scaling;
  }
  const std::size_t nearest = all.size();
  for (std::size_t i = 1; i < nearest; ++i) {
    all.push_back(all[i]);
    all.back().rounding = Rounding::stochastic;
  }
  return all;
}

TEST(Processors, QuantizeAlike) {
  TestMatrix in = normal_matrix(70, 150);
  for (std::size_t c = 0; c < 40; ++c) {
    in.at(5, c) *= 1e-39f;
    in.at(6, c) = 0;
    in.at(7, c) *= 3e37f;
  }
  in.at(50, 100) = NAN;
  in.at(69, 149) = -INFINITY;
  for (const TestMatrix& m : {in, normal_matrix(150, 70)})
    for (OperandFormat f : formats())
      for (f.hadamard = 0; f.hadamard <= 32; f.hadamard += 16)
        for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
          SCOPED_TRACE(describe(f, axis) + " hadamard " + std::to_string(f.hadamard));
          expect_same_bits_everywhere([&] {
            QuantSums sums;
            Bits bits;
            append(bits, quantized(f, m, axis, {77, 12, 0, 0, 9}, &sums).v);
            append_sums(bits, sums);
            return bits;
          });
        }
}

TEST(Processors, RotateAlike) {
  const TestMatrix in = normal_matrix(207, 231);
  for (const int block : {16, 32, 64, 128})
    for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
      expect_same_bits_everywhere([&] {
        Bits bits;
        const TestMatrix out = rotated(in, axis, block);
        float amax = 0;
        for (const float v : out.v) amax = std::max(amax, std::fabs(v));
        EXPECT_EQ(rotated_amax(in.view(), axis, {block, RotationForm::drawn, 9}, 0), amax);
        append(bits, out.v);
        return bits;
      });
}

// Numerators whose quotients are halfway between two values of E2M1, where the rounding changes, or next to it.
TEST(Processors, DivideByCorrectedReciprocals) {
  std::mt19937 rng(33);
  std::uniform_real_distribution<float> exponent(-60, 60);
  for_each_processor([&] {
    for (int round = 0; round < 20000; ++round) {
      float a[16], b[16];
      for (int i = 0; i < 16; ++i) {
        constexpr float kHalfway[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
        b[i] = std::exp2(exponent(rng));
        a[i] = i % 8 == 7 ? b[i] * std::exp2(exponent(rng) / 30) : b[i] * kHalfway[i % 8];
        for (auto steps = rng() % 3; steps > 0; --steps) a[i] = std::nextafter(a[i], i < 8 ? 0.0f : INFINITY);
      }
      ASSERT_TRUE(HWY_DYNAMIC_DISPATCH(quotients_are_rounded_once)(a, b));
    }
  });
}

TEST(Processors, JoinRowsTogetherAsAlone) {
  const TestMatrix rows = normal_matrix(16, 16);
  for_each_processor([&] {
    std::vector<float> together(16), alone(16);
    HWY_DYNAMIC_DISPATCH(sums_of_rows)(rows.v.data(), together.data(), alone.data());
    EXPECT_EQ(together, alone);
  });
}

TEST(Processors, AnswerWhatIfAlike) {
  const TestMatrix in = normal_matrix(40, 530);
  expect_same_bits_everywhere([&] {
    Bits bits;
    for (const WhatIfRow& row : what_if(in.view())) append_sums(bits, row.sums);
    return bits;
  });
}

template <class T>
Bits row_results() {
  constexpr std::size_t kCount = 45;
  const std::vector<float> numbers = normal_matrix(10, kCount).v;
  const std::vector<T> x(numbers.begin(), numbers.end());
  std::vector<T> y = x;
  softmax_row(x.data(), kCount, T(0.3), y.data());
  sigmoid_row(x.data() + kCount, kCount, y.data() + kCount);
  y[2 * kCount] = dot(x.data(), x.data() + 50, kCount);
  add_scaled(T(0.7), x.data(), kCount, y.data() + 3 * kCount);
  softmax_backward_row(y.data() + 4 * kCount, y.data() + 6 * kCount, 64, T(0.3), T(2.1), T(0.4));
  Bits bits;
  append(bits, y);
  return bits;
}

TEST(Processors, ComputeRowsAlike) {
  expect_same_bits_everywhere(row_results<float>);
  expect_same_bits_everywhere(row_results<double>);
}

float exp_at(float x) {
  float in[16], out[16];
  std::fill_n(in, 16, x);
  HWY_DYNAMIC_DISPATCH(exp_of_sixteen)(in, out);
  return out[7];
}

TEST(Exponential, IsWithinTwoUlp) {
  double worst = 0;
  float x[16], y[16];
  // Every 61st float of both signs up to the ends of the range.
  for (const float end : {87.0f, 88.7f})
    for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(end); bits += 61 * 16) {
      for (std::uint32_t i = 0; i < 16; ++i) {
        const float magnitude = std::min(std::bit_cast<float>(bits + 61 * i), end);
        x[i] = end == 87.0f ? -magnitude : magnitude;
      }
      HWY_DYNAMIC_DISPATCH(exp_of_sixteen)(x, y);
      for (int i = 0; i < 16; ++i) {
        const double exact = std::exp(static_cast<double>(x[i]));
        const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
        worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - exact) / ulp);
      }
    }
  EXPECT_LT(worst, 2.0);
}

TEST(Exponential, Ends) {
  EXPECT_EQ(exp_at(0.0f), 1.0f);
  EXPECT_EQ(exp_at(-INFINITY), 0.0f);
  EXPECT_EQ(exp_at(-1000.0f), 0.0f);
  EXPECT_EQ(exp_at(INFINITY), INFINITY);
  EXPECT_EQ(exp_at(1000.0f), INFINITY);
  EXPECT_TRUE(std::isnan(exp_at(NAN)));
}

}  // namespace
}  // namespace moescope
#endif
