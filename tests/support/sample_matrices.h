// Matrices and formats for tests of quantization, quantization of a matrix, and comparison of the results.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/numerics/kernels/hadamard.h"
#include "core/numerics/quantize.h"

namespace moescope {

struct TestMatrix {
  std::size_t rows, cols;
  std::vector<float> v;
  TestMatrix(std::size_t r, std::size_t c, float value = 0) : rows(r), cols(c), v(r * c, value) {}
  float& at(std::size_t r, std::size_t c) { return v[r * cols + c]; }
  float at(std::size_t r, std::size_t c) const { return v[r * cols + c]; }
  Matrix<const float> view() const { return {v.data(), rows, cols}; }
  Matrix<float> view() { return {v.data(), rows, cols}; }
};

inline TestMatrix transposed(const TestMatrix& m) {
  TestMatrix t(m.cols, m.rows);
  for (std::size_t r = 0; r < m.rows; ++r)
    for (std::size_t c = 0; c < m.cols; ++c) t.at(c, r) = m.at(r, c);
  return t;
}

inline TestMatrix normal_matrix(std::size_t rows, std::size_t cols, int seed = 1, float sigma = 1) {
  TestMatrix m(rows, cols);
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal(0, sigma);
  for (float& x : m.v) x = normal(generator);
  return m;
}

inline OperandFormat fp8(ElementFormat element, ScaleGranularity granularity, bool power_of_two = false) {
  return {QuantScheme::fp8, element, granularity, power_of_two};
}
inline OperandFormat mx(ElementFormat element, ScaleRule rule = ScaleRule::rceil) {
  OperandFormat f{QuantScheme::mx, element};
  f.rule = rule;
  return f;
}
inline const OperandFormat kNvfp4{QuantScheme::nvfp4, ElementFormat::e2m1};
inline const OperandFormat kBf16{QuantScheme::bf16};

inline std::string describe(const OperandFormat& f, BlockAxis axis) {
  return std::string(element_name(f)) + " scheme " + std::to_string(static_cast<int>(f.scheme)) + " granularity " +
         std::to_string(static_cast<int>(f.granularity)) + (f.power_of_two_scale ? " pow2" : "") +
         (axis == BlockAxis::row ? " rows" : " columns");
}

inline TestMatrix quantized(const OperandFormat& f, const TestMatrix& in, BlockAxis axis, const RoundingKey& key = {},
                            QuantSums* sums = nullptr) {
  TestMatrix out(in.rows, in.cols);
  quantize_operand({in.view(), f, axis, key, sums}, out.view());
  return out;
}

inline void expect_same_values(const TestMatrix& found, const TestMatrix& want, const std::string& what) {
  int shown = 0;
  for (std::size_t i = 0; i < found.v.size() && shown < 3; ++i) {
    const bool is_same = std::isnan(want.v[i])
                             ? std::isnan(found.v[i])
                             : std::bit_cast<std::uint32_t>(found.v[i]) == std::bit_cast<std::uint32_t>(want.v[i]);
    if (!is_same) {
      ++shown;
      ADD_FAILURE() << what << " at " << i << ": " << found.v[i] << ", not " << want.v[i];
    }
  }
}

inline void expect_near_relative(double found, double want, const std::string& what) {
  EXPECT_NEAR(found, want, 2e-5 * std::fabs(want) + 1e-300) << what;
}

inline TestMatrix rotated(const TestMatrix& m, BlockAxis axis, int block, std::uint64_t seed = 9) {
  TestMatrix out(m.rows, m.cols);
  hadamard_rotate(m.view(), axis, {block, RotationForm::drawn, seed}, 0, out.view());
  return out;
}

}  // namespace moescope
