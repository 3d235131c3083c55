// Products of quantized operands, on matrix units where this processor has them and otherwise by sgemm: the sum of
// their decoded values in float64, within what a sum in FP32 may lose. Every pair of formats, one part or two.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/model/layers/operand.h"
#include "core/model/layers/product.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/number_format.h"
#include "core/numerics/size.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

// One operand: values as they lie in memory, and decoded.
struct TestOperand {
  TestMatrix values, decoded;
  OperandSource<float> source;

  TestOperand(const OperandFormat& format, std::size_t rows, std::size_t cols, BlockAxis axis, int parts,
              bool parts_beside, int seed)
      : values(normal_matrix(rows, cols, seed)), decoded(rows, cols) {
    source.format = &format;
    source.axis = axis;
    source.stride = static_cast<int>(cols);
    source.parts = parts;
    source.rows = static_cast<int>(rows) / (parts == 2 && !parts_beside ? 2 : 1);
    source.cols = static_cast<int>(cols) / (parts == 2 && parts_beside ? 2 : 1);
    const std::size_t step = parts_beside ? size(source.cols) : size(source.rows) * cols;
    for (std::size_t i = 0; i < size(parts); ++i) {
      for (std::size_t r = 0; i == 1 && r < size(source.rows); ++r)  // the second has other scales
        for (std::size_t c = 0; c < size(source.cols); ++c) values.v[step + r * cols + c] *= 40;
      source.part[i].in = values.v.data() + i * step;
      quantize_alone(format, source.part[i].in, source.rows, source.cols, cols, axis, {}, decoded.v.data() + i * step,
                     nullptr);
    }
  }
};

struct Shape {
  int m, n, k;
  Trans ta, tb;
  int a_parts, b_parts;
  bool a_beside, b_beside;
};

void expect_sum_of_decoded(const OperandFormat& of_a, const OperandFormat& of_b, const Shape& s, bool in_bands,
                           bool adds) {
  const bool turned_a = s.ta == Trans::yes, turned_b = s.tb == Trans::yes;
  const TestOperand a(of_a, size(turned_a ? s.k : s.m), size(turned_a ? s.m : s.k),
                      turned_a ? BlockAxis::column : BlockAxis::row, s.a_parts, s.a_beside, 1);
  const TestOperand b(of_b, size(turned_b ? s.n : s.k), size(turned_b ? s.k : s.n),
                      turned_b ? BlockAxis::row : BlockAxis::column, s.b_parts, s.b_beside, 2);
  std::vector<float> scratch(scratch_for(a.source, b.source) + 16);
  const GemmInputs<float> inputs = quantized(a.source, b.source, in_bands, scratch.data());
  const TestMatrix before = normal_matrix(size(s.m), size(s.n), 3);
  TestMatrix c = before;
  // In tiles of rows, as linear layers compute theirs.
  constexpr int kTile = 100;
  for (int first = 0; first < s.m; first += kTile)
    multiply(s.ta, s.tb, std::min(kTile, s.m - first), s.n, s.k,
             turned_a ? inputs.a.from(0, first) : inputs.a.from(first, 0), inputs.b, adds,
             c.v.data() + size(first) * size(s.n), s.n);
  for (std::size_t i = 0; i < size(s.m); ++i)
    for (std::size_t j = 0; j < size(s.n); j += 3) {
      double sum = adds ? static_cast<double>(before.at(i, j)) : 0, magnitudes = std::fabs(sum);
      for (std::size_t x = 0; x < size(s.k); ++x) {
        const double product = static_cast<double>(turned_a ? a.decoded.at(x, i) : a.decoded.at(i, x)) *
                               static_cast<double>(turned_b ? b.decoded.at(j, x) : b.decoded.at(x, j));
        sum += product, magnitudes += std::fabs(product);
      }
      ASSERT_NEAR(static_cast<double>(c.at(i, j)), sum, (s.k + 8) * 0x1p-24 * magnitudes + 1e-30)
          << i << ", " << j << " of " << s.m << " x " << s.n << " x " << s.k;
    }
}

std::vector<OperandFormat> formats() {
  std::vector<OperandFormat> all{kBf16Format, mx_format(ElementFormat::e4m3), kNvfp4Format};
  for (const ScaleGranularity g : {ScaleGranularity::tensor, ScaleGranularity::row, ScaleGranularity::block_1x128,
                                   ScaleGranularity::block_128x128})
    all.push_back(fp8_format(g));
  return all;
}

}  // namespace

TEST(Product, IsTheSumOfDecodedValues) {
  using enum Trans;
  const Shape shapes[] = {
      {70, 33, 300, no, yes, 1, 1, false, false},   // forward
      {130, 96, 260, no, yes, 1, 2, false, false},  // of w1 above w3
      {64, 70, 400, no, no, 2, 2, true, false},     // dgrad of both, cut within a block of 128
      {270, 40, 150, yes, no, 2, 1, true, false},   // wgrad of both
      {1, 1, 1, no, no, 1, 1, false, false},
  };
  for (const OperandFormat& of_a : formats())
    for (const OperandFormat& of_b : formats())
      for (const Shape& shape : shapes)
        ASSERT_NO_FATAL_FAILURE(expect_sum_of_decoded(of_a, of_b, shape, shape.m > 100, shape.n > 50))
            << format_name(of_a) << " by " << format_name(of_b) << ", " << matrix_unit_text();
}
