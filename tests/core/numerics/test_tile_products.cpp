// Products of operands laid out for matrix units are as close to float64's as sums in FP32 are; pairs and transposes
// hold the elements of the matrix.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/numerics/kernels/narrow_native.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/kernels/tile_products.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

double wide(Bf16 value) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16));
}

// Returns the elements of a matrix that is padded with zeros to `rows` x `cols`.
std::vector<Bf16> rows_of(const TestMatrix& m, std::size_t rows, std::size_t cols) {
  std::vector<Bf16> out(rows * cols);
  for (std::size_t r = 0; r < m.rows; ++r) narrow_natively(m.v.data() + r * m.cols, m.cols, out.data() + r * cols);
  return out;
}
std::vector<Bf16> pairs_of(const std::vector<Bf16>& in, std::size_t rows, std::size_t cols) {
  std::vector<Bf16> out(rows * cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) out[r / 2 * 2 * cols + 2 * c + r % 2] = in[r * cols + c];
  return out;
}

}  // namespace

class TileProductsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_matrix_unit()) GTEST_SKIP() << matrix_unit_text();
  }
};

TEST_F(TileProductsTest, ErrorsAreWithinTheBoundOfAnFp32Sum) {
  const TileProducts tiles;
  for (const int m : {16, 32, 48, 64})
    for (const int n : {16, 32, 48, 64, 80, 128})
      for (const int k : {2, 31, 48, 64, 300})
        for (const bool adds : {false, true}) {
          const auto rows = static_cast<std::size_t>(m), cols = static_cast<std::size_t>(n);
          const auto depth = static_cast<std::size_t>(to_tiles(k, kUnitDepth));
          const auto a = rows_of(normal_matrix(rows, static_cast<std::size_t>(k), 1), rows, depth);
          const auto b = rows_of(normal_matrix(static_cast<std::size_t>(k), cols, 2), depth, cols);
          const TestMatrix before = normal_matrix(rows, cols, 3);
          const float scale = adds ? 1 : 0.3f;
          TestMatrix c = before;
          const auto pairs = pairs_of(b, depth, cols);
          tiles.multiply({a.data(), m, k, depth}, paired(pairs.data(), n), adds, c.view(), scale);
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t i = 0; i < cols; ++i) {
              double exact = adds ? static_cast<double>(before.at(r, i)) : 0, magnitudes = std::fabs(exact);
              for (std::size_t x = 0; x < depth; ++x) {
                const double product = wide(a[r * depth + x]) * wide(b[x * cols + i]) * static_cast<double>(scale);
                exact += product;
                magnitudes += std::fabs(product);
              }
              ASSERT_NEAR(static_cast<double>(c.at(r, i)), exact, (k + 4) * 0x1p-24 * magnitudes)
                  << m << " x " << n << " x " << k << " at " << r << ", " << i;
            }
        }
}

TEST_F(TileProductsTest, PairsAreTwoRowsSideBySide) {
  for (const std::size_t n : {1u, 15u, 16u, 48u, 61u}) {
    const TestMatrix in = normal_matrix(2, n);
    const auto rows = rows_of(in, 2, n);
    std::vector<Bf16> pairs(2 * n + 1, 7);
    narrow_pair_natively(in.v.data(), in.v.data() + n, n, pairs.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(pairs[2 * i], rows[i]);
      EXPECT_EQ(pairs[2 * i + 1], rows[n + i]);
    }
    EXPECT_EQ(pairs[2 * n], 7);
  }
}

TEST_F(TileProductsTest, TransposedWordsAreThoseOfTheOtherPlace) {
  constexpr int kRows = 48, kCols = 32, kInStride = 40, kOutStride = 50;
  std::vector<std::uint32_t> in(kRows * kInStride), out(kCols * kOutStride, 0);
  std::iota(in.begin(), in.end(), 1u);
  transpose_words(in.data(), kRows, kCols, kInStride, out.data(), kOutStride);
  for (std::size_t c = 0; c < kCols; ++c)
    for (std::size_t r = 0; r < kOutStride; ++r)
      ASSERT_EQ(out[c * kOutStride + r], r < kRows ? in[r * kInStride + c] : 0u) << r << ", " << c;
}
