#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/numerics/kernels/hadamard.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

double product(const TestMatrix& a, std::size_t i, const TestMatrix& b, std::size_t j) {
  double sum = 0;
  for (std::size_t k = 0; k < a.cols; ++k) sum += static_cast<double>(a.at(i, k)) * b.at(j, k);
  return sum;
}

TEST(Hadamard, LeavesProductsAndBothAxesAgree) {
  const TestMatrix a = normal_matrix(20, 200, 4), b = normal_matrix(18, 200, 5);  // 200 = 128 + 64 + 8
  for (const int block : {16, 32, 64, 128}) {
    const TestMatrix ra = rotated(a, BlockAxis::row, block), rb = rotated(b, BlockAxis::row, block);
    for (std::size_t i = 0; i < a.rows; ++i)
      for (std::size_t j = 0; j < b.rows; ++j) EXPECT_NEAR(product(ra, i, rb, j), product(a, i, b, j), 2e-4);
    expect_same_values(transposed(rotated(transposed(a), BlockAxis::column, block)), ra, "column axis");
    EXPECT_GT(std::fabs(ra.v[0] - a.v[0]) + std::fabs(ra.v[1] - a.v[1]), 0);
  }
}

TEST(Hadamard, AmaxIsThatOfTheRotatedValues) {
  OperandFormat f = fp8(ElementFormat::e4m3, ScaleGranularity::tensor);
  for (f.hadamard = 16; f.hadamard <= 128; f.hadamard *= 2)
    for (const auto& [rows, cols] :
         {std::pair<std::size_t, std::size_t>{37, 207}, {300, 33}, {1, 1}, {128, 256}, {9, 1100}})
      for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
        TestMatrix in = normal_matrix(rows, cols);
        const TestMatrix turned = rotated(in, axis, f.hadamard);
        float want = 0;
        for (const float v : turned.v) want = std::max(want, std::fabs(v));
        EXPECT_EQ(operand_amax({in.view(), f, axis, {.rotation_seed = 9}}), want) << rows << " x " << cols;
        for (const float v : {INFINITY, -NAN}) {
          in.at(rows - 1, cols / 2) = v;
          EXPECT_FALSE(std::isfinite(operand_amax({in.view(), f, axis, {.rotation_seed = 9}})))
              << rows << " x " << cols;
        }
      }
}

// Blocks that cannot hold the largest value are skipped. The block whose sixteen values meet in one sum must not be
// skipped. It is read last, and the blocks that are read together with it are zero.
TEST(Hadamard, AmaxFindsTheBlockThatMeetsInOneValue) {
  OperandFormat f = fp8(ElementFormat::e4m3, ScaleGranularity::tensor);
  f.hadamard = 16;
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
    const bool rows = axis == BlockAxis::row;
    TestMatrix in = normal_matrix(rows ? 16 : 1024, rows ? 1024 : 64);
    const float before = operand_amax({in.view(), f, axis, {.rotation_seed = 9}});
    for (std::size_t r = rows ? 15 : 0; r < 16; ++r)
      for (std::size_t c = 0; c < in.cols; ++c) in.at(r, c) = 0;
    for (std::size_t k = 0; k < 16; ++k) {
      TestMatrix unit(1, 16);
      unit.at(0, k) = 1;
      const std::size_t sign_at = rows ? 1008 : 0;  // signs depend on the place along the contracting dimension
      TestMatrix turned(1, 16);
      hadamard_rotate(unit.view(), BlockAxis::row, {16, RotationForm::drawn, 9}, sign_at, turned.view());
      in.at(rows ? 15 : k, rows ? 1008 + k : 63) = std::copysign(before * 1.001f / 4, turned.at(0, 0));
    }
    const float amax = operand_amax({in.view(), f, axis, {.rotation_seed = 9}});
    EXPECT_NEAR(amax, before * 1.001f, before * 1e-5f);
    float want = 0;
    for (const float v : rotated(in, axis, 16).v) want = std::max(want, std::fabs(v));
    EXPECT_EQ(amax, want);
  }
}

TEST(Hadamard, MatchesTheMatrixAndSpreadsAnOutlier) {
  TestMatrix unit(1, 64);
  unit.at(0, 21) = 1;
  const TestMatrix r = rotated(unit, BlockAxis::row, 64);
  const float sign = r.v[0] > 0 ? 1.0f : -1.0f;
  for (std::size_t k = 0; k < 64; ++k)
    EXPECT_EQ(r.v[k], sign * 0.125f * (std::popcount(k & 21) % 2 ? -1 : 1)) << k;  // Sylvester: (-1)^popcount(i & j)
}

TEST(Hadamard, RescuesFp4FromOutlierChannels) {
  TestMatrix in = normal_matrix(64, 256);
  for (std::size_t r = 0; r < in.rows; ++r) {
    in.at(r, 10) *= 300;
    in.at(r, 100) *= 300;
  }
  OperandFormat plain = mx(ElementFormat::e2m1), turned = plain;
  turned.hadamard = 32;
  QuantSums a, b;
  quantized(plain, in, BlockAxis::row, {}, &a);
  quantized(turned, in, BlockAxis::row, {}, &b);
  EXPECT_LT(b.underflow_share(), a.underflow_share());
  EXPECT_NEAR(b.x2 / a.x2, 1, 1e-5);
}

}  // namespace
