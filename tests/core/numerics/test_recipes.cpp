#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/numerics/recipes.h"
#include "tests/support/sample_matrices.h"

using namespace moescope;

namespace {

TEST(Recipes, TableNamesEachOnceInOrder) {
  std::set<std::string> names;
  ASSERT_EQ(recipes().size(), static_cast<std::size_t>(kNumRecipes));
  for (int i = 0; i < kNumRecipes; ++i) {
    const RecipeInfo& info = recipes()[static_cast<std::size_t>(i)];
    EXPECT_EQ(static_cast<int>(info.recipe), i);
    EXPECT_EQ(recipe_named(info.name), info.recipe);
    EXPECT_GT(std::string(info.description).size(), 10u);
    EXPECT_EQ(std::string(info.description).find('\n'), std::string::npos);
    EXPECT_LE(std::string(info.words).size(), 26u) << info.words << ": a field of Set-up shows no more";
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kNumRecipes));
  EXPECT_FALSE(recipe_named("mxfp8"));
}

TEST(Recipes, FormatsOfEachOperand) {
  const OperandFormat dy = recipe_format(Recipe::fp8_tensorwise, Direction::dgrad, OperandRole::dy);
  EXPECT_EQ(dy.element, ElementFormat::e5m2);
  EXPECT_EQ(recipe_format(Recipe::fp8_tensorwise, Direction::wgrad, OperandRole::x).element, ElementFormat::e4m3);
  EXPECT_TRUE(recipe_format(Recipe::fp8_rowwise, Direction::forward, OperandRole::w).power_of_two_scale);
  EXPECT_EQ(recipe_format(Recipe::fp8_deepseek_128, Direction::dgrad, OperandRole::w).granularity,
            ScaleGranularity::block_128x128);
  EXPECT_EQ(recipe_format(Recipe::fp8_deepseek_128, Direction::wgrad, OperandRole::x).granularity,
            ScaleGranularity::block_1x128);
  EXPECT_EQ(recipe_format(Recipe::mxfp8_e5m2_grad, Direction::wgrad, OperandRole::dy).element, ElementFormat::e5m2);
  EXPECT_EQ(recipe_format(Recipe::mxfp8_e5m2_grad, Direction::wgrad, OperandRole::x).element, ElementFormat::e4m3);
  EXPECT_EQ(recipe_format(Recipe::mxfp8_rceil_wgrad_with_hp, Direction::wgrad, OperandRole::x).scheme,
            QuantScheme::bf16);
  EXPECT_EQ(recipe_format(Recipe::mxfp8_rceil_wgrad_with_hp, Direction::dgrad, OperandRole::w),
            recipe_format(Recipe::mxfp8_rceil, Direction::dgrad, OperandRole::w));
  EXPECT_EQ(recipe_format(Recipe::mxfp8_floor, Direction::forward, OperandRole::x).rule, ScaleRule::floor);
  EXPECT_EQ(recipe_format(Recipe::mxfp4, Direction::dgrad, OperandRole::dy).element, ElementFormat::e2m1);
}

TEST(Recipes, BitsPerValue) {
  const auto bits = [](Recipe recipe) {
    return bits_per_value(recipe_format(recipe, Direction::forward, OperandRole::x));
  };
  EXPECT_EQ(bits(Recipe::fp32), 32);
  EXPECT_EQ(bits(Recipe::bf16), 16);
  EXPECT_EQ(bits(Recipe::fp8_tensorwise), 8);
  EXPECT_EQ(bits(Recipe::fp8_deepseek_128), 8.25);
  EXPECT_EQ(bits(Recipe::mxfp8_rceil), 8.25);
  EXPECT_EQ(bits(Recipe::mxfp6_e3m2), 6.25);
  EXPECT_EQ(bits(Recipe::mxfp4), 4.25);
  EXPECT_EQ(bits(Recipe::nvfp4), 4.5);
}

// A grouped linear layer: y = x W^T of each expert and both backward products, in double from decoded operands
// ---------------

// Returns the sum over k of a(i, k) b(j, k); `transposed` matrices are read by columns.
std::vector<double> product(const TestMatrix& a, bool a_transposed, const TestMatrix& b, bool b_transposed) {
  const auto get = [](const TestMatrix& m, bool t, std::size_t i, std::size_t k) {
    return t ? m.at(k, i) : m.at(i, k);
  };
  const std::size_t m = a_transposed ? a.cols : a.rows, depth = a_transposed ? a.rows : a.cols;
  const std::size_t n = b_transposed ? b.cols : b.rows;
  std::vector<double> c(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < depth; ++k) {
      const double factor = get(a, a_transposed, i, k);
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += factor * get(b, b_transposed, j, k);
    }
  return c;
}

struct Power {
  double signal = 0, error = 0;
  void add(const std::vector<double>& reference, const std::vector<double>& found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      signal += reference[i] * reference[i];
      error += (reference[i] - found[i]) * (reference[i] - found[i]);
    }
  }
  double sqnr_db() const { return 10 * std::log10(signal / error); }
};

struct LayerSqnr {
  double out, dx, dw;
};

LayerSqnr grouped_linear_sqnr(Recipe recipe, int hadamard = 0) {
  constexpr std::size_t kIn = 160, kOut = 96;
  Power out, dx, dw;
  int seed = 1;
  for (const std::size_t tokens : {96u, 32u, 160u, 0u, 64u}) {
    const TestMatrix x = normal_matrix(tokens, kIn, ++seed, 1.0f), w = normal_matrix(kOut, kIn, ++seed, 0.02f);
    const TestMatrix dy = normal_matrix(tokens, kOut, ++seed, 1e-4f);
    std::uint64_t stream = 0;
    const auto decoded = [&](const TestMatrix& m, Direction direction, OperandRole operand) {
      TestMatrix q(m.rows, m.cols);
      OperandFormat format = recipe_format(recipe, direction, operand);
      if (is_scaled(format)) format.hadamard = hadamard;
      quantize_operand({{m.v.data(), m.rows, m.cols, m.cols},
                        format,
                        contracting_axis(direction, operand),
                        {static_cast<std::uint64_t>(seed), ++stream}},
                       {q.v.data(), m.rows, m.cols, q.cols});
      return q;
    };
    out.add(product(x, false, w, false), product(decoded(x, Direction::forward, OperandRole::x), false,
                                                 decoded(w, Direction::forward, OperandRole::w), false));
    dx.add(product(dy, false, w, true), product(decoded(dy, Direction::dgrad, OperandRole::dy), false,
                                                decoded(w, Direction::dgrad, OperandRole::w), true));
    dw.add(product(dy, true, x, true), product(decoded(dy, Direction::wgrad, OperandRole::dy), true,
                                               decoded(x, Direction::wgrad, OperandRole::x), true));
  }
  return {out.sqnr_db(), dx.sqnr_db(), dw.sqnr_db()};
}

TEST(Recipes, GroupedLinearReachesTorchaosFloors) {
  const LayerSqnr s = grouped_linear_sqnr(Recipe::mxfp8_rceil);
  EXPECT_GT(s.out, 27);
  EXPECT_GT(s.dx, 25);
  EXPECT_GT(s.dw, 24);
}

TEST(Recipes, GroupedLinearOrdersTheRecipes) {
  const LayerSqnr fp32 = grouped_linear_sqnr(Recipe::fp32), bf16 = grouped_linear_sqnr(Recipe::bf16);
  EXPECT_EQ(fp32.out, INFINITY);
  EXPECT_GT(bf16.out, 50);
  const LayerSqnr mxfp8 = grouped_linear_sqnr(Recipe::mxfp8_rceil), mxfp4 = grouped_linear_sqnr(Recipe::mxfp4);
  const LayerSqnr nvfp4 = grouped_linear_sqnr(Recipe::nvfp4);
  EXPECT_GT(mxfp8.out, nvfp4.out);
  EXPECT_GT(nvfp4.out, mxfp4.out);
  EXPECT_GT(mxfp4.out, 14);
  const LayerSqnr hp = grouped_linear_sqnr(Recipe::mxfp8_rceil_wgrad_with_hp);
  EXPECT_EQ(hp.out, mxfp8.out);
  EXPECT_GT(hp.dw, 34);
  EXPECT_LT(grouped_linear_sqnr(Recipe::mxfp8_e5m2_grad).dx, mxfp8.dx);
  for (const Recipe recipe : {Recipe::fp8_tensorwise, Recipe::fp8_rowwise, Recipe::fp8_deepseek_128})
    EXPECT_NEAR(grouped_linear_sqnr(recipe).out, mxfp8.out, 1.5) << recipe_info(recipe).name;
}

TEST(Recipes, RotationKeepsTheProductOfQuantizedOperandsRight) {
  for (const Recipe recipe : {Recipe::mxfp8_rceil, Recipe::nvfp4, Recipe::fp8_deepseek_128}) {
    const LayerSqnr plain = grouped_linear_sqnr(recipe), turned = grouped_linear_sqnr(recipe, 32);
    EXPECT_NEAR(turned.out, plain.out, 1.5) << recipe_info(recipe).name;
    EXPECT_NEAR(turned.dx, plain.dx, 1.5) << recipe_info(recipe).name;
    EXPECT_NEAR(turned.dw, plain.dw, 1.5) << recipe_info(recipe).name;
  }
}

}  // namespace
