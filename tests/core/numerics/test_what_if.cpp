// The what-if strip against quantize_operand, choice by choice, and the lessons read from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/numerics/kernels/what_if_tile.h"
#include "core/numerics/rng.h"
#include "core/numerics/what_if.h"
#include "tests/support/every_format.h"

namespace moescope {
namespace {

constexpr double kSumTolerance = 1e-5;  // relative error of sums of squares: what_if.h

void expect_same(const std::vector<float>& x, std::size_t rows, std::size_t cols, bool sums_too = true) {
  const Matrix<const float> in{x.data(), rows, cols, cols};
  std::vector<float> out(x.size());
  const std::vector<WhatIfRow> all = what_if(in);
  ASSERT_EQ(all.size(), 2u * kWhatIfBlocks.size() * kNumElementFormats * kWhatIfRules);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const WhatIfRow& row = all[i];
    SCOPED_TRACE(std::string(traits(row.format.element).name) + " " + scale_rule_name(row.format.rule) + " " +
                 std::to_string(row.format.block) + (row.axis == BlockAxis::row ? " row" : " column"));
    EXPECT_EQ(what_if_index(row.format, row.axis), static_cast<int>(i));
    QuantSums sums;
    quantize_operand({in, row.format, row.axis, {}, &sums}, {out.data(), in.rows, in.cols, cols});
    EXPECT_EQ(row.sums.e8m0_blocks, sums.e8m0_blocks);
    EXPECT_EQ(row.sums.amax, sums.amax);
    EXPECT_EQ(row.sums.elements, sums.elements);
    EXPECT_EQ(row.sums.nonzero, sums.nonzero);
    EXPECT_EQ(row.sums.underflow, sums.underflow);
    EXPECT_EQ(row.sums.clipped, sums.clipped);
    EXPECT_EQ(row.sums.blocks, sums.blocks);
    EXPECT_EQ(row.sums.clipped_blocks, sums.clipped_blocks);
    EXPECT_EQ(row.sums.crest_blocks, sums.crest_blocks);
    if (!sums_too) continue;
    EXPECT_NEAR(row.sums.x2, sums.x2, kSumTolerance * sums.x2);
    EXPECT_NEAR(row.sums.q2, sums.q2, kSumTolerance * sums.q2);
    EXPECT_NEAR(row.sums.xq, sums.xq, kSumTolerance * sums.x2);
    EXPECT_NEAR(row.sums.err2, sums.err2, kSumTolerance * sums.err2 + 1e-300);
    EXPECT_NEAR(row.sums.crest, sums.crest, kSumTolerance * sums.crest);
  }
}

// A tile that is neither full of rows nor of columns; its sums are added to those of an earlier tile.
TEST(WhatIfTile, AddsTheStatisticsOfItsLanes) {
  constexpr int kRows = 5, kCols = 44;
  const std::vector<float> x = normal_values(kRows * kCols);
  const std::vector<WhatIfRow> expected = what_if({x.data(), kRows, kCols});
  WhatIfTile tile;
  tile.depth = kCols;
  tile.lanes = kRows;
  tile.x.fill(0);
  for (int row = 0; row < kRows; ++row)
    for (int col = 0; col < kCols; ++col) tile.x[col * kWhatIfLanes + row] = x[row * kCols + col];
  std::vector<WhatIfRow> rows(expected.size() / 2);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].format = expected[i].format;
  add_tile(tile, rows.data());
  add_tile(tile, rows.data());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].sums.elements, 2 * expected[i].sums.elements);
    EXPECT_EQ(rows[i].sums.blocks, 2 * expected[i].sums.blocks);
    EXPECT_EQ(rows[i].sums.underflow, 2 * expected[i].sums.underflow);
    EXPECT_EQ(rows[i].sums.amax, expected[i].sums.amax);
    EXPECT_NEAR(rows[i].sums.err2, 2 * expected[i].sums.err2, 1e-12 * rows[i].sums.err2);
  }
}

TEST(WhatIf, AgreesWithTheQuantizer) {
  expect_same(normal_values(96 * 1024), 96, 1024);
}
TEST(WhatIf, AgreesOnRaggedShapes) {
  expect_same(normal_values(37 * 45), 37, 45);
  expect_same(normal_values(1 * 1000), 1, 1000);
  expect_same(normal_values(600 * 3), 600, 3);
}
TEST(WhatIf, AgreesAtTheEndsOfFloat32) {
  expect_same(normal_values(64 * 64, 1e-39), 64, 64);
  expect_same(normal_values(64 * 64, 1e-20), 64, 64);
  expect_same(normal_values(64 * 64, 0x1p122), 64, 64);
  // Infinities, scales that overflow in EVEN, values that round up to 2^128: the counts still agree.
  expect_same(normal_values(64 * 64, 0x1p126), 64, 64, false);
}
TEST(WhatIf, AgreesWithZerosNansAndInfinities) {
  std::vector<float> x = normal_values(64 * 64);
  for (int i = 0; i < 700; ++i) x[i] = 0;
  x[1000] = std::numeric_limits<float>::quiet_NaN();
  x[3000] = -std::numeric_limits<float>::infinity();
  expect_same(x, 64, 64);
}

TEST(WhatIf, NothingInNothingOut) {
  const std::vector<WhatIfRow> all = what_if({nullptr, 0, 0, 0});
  ASSERT_EQ(all.size(), 2u * kWhatIfBlocks.size() * kNumElementFormats * kWhatIfRules);
  EXPECT_EQ(all[0].sums.elements, 0u);
}

TEST(WhatIf, StopsWhenAsked) {
  const std::vector<float> x = normal_values(64 * 64);
  std::stop_source source;
  source.request_stop();
  EXPECT_TRUE(what_if({x.data(), 64, 64, 64}, source.get_token()).empty());
}

const QuantSums& sums_of(const std::vector<WhatIfRow>& all, ElementFormat element, ScaleRule rule, int block,
                         BlockAxis axis = BlockAxis::row) {
  return all[static_cast<std::size_t>(what_if_index(mx_format(element, rule, block), axis))].sums;
}

TEST(WhatIfLessons, ReferenceLevelsOnGaussianData) {
  const std::vector<float> x = normal_values(1024 * 1024);
  const std::vector<WhatIfRow> all = what_if({x.data(), 1024, 1024, 1024});
  const auto sqnr = [&](ElementFormat f, int block) { return sums_of(all, f, ScaleRule::rceil, block).sqnr_db(); };
  EXPECT_NEAR(sqnr(ElementFormat::e4m3, 32), 31.5, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e5m2, 32), 25.6, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e2m3, 32), 31.0, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e3m2, 32), 25.6, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e2m1, 32), 18.8, 0.1);
  EXPECT_NEAR(sums_of(all, ElementFormat::e2m1, ScaleRule::rceil, 32).underflow_share(), 0.107, 0.002);
  // The size of a block does not matter in MXFP8, but it does in MXFP4.
  for (const int block : kWhatIfBlocks) EXPECT_NEAR(sqnr(ElementFormat::e4m3, block), 31.52, 0.05) << block;
  EXPECT_NEAR(sqnr(ElementFormat::e2m1, 8), 19.2, 0.1);
  EXPECT_NEAR(sqnr(ElementFormat::e2m1, 512), 16.9, 0.1);
  // FLOOR clips, RCEIL never does.
  const QuantSums& floor = sums_of(all, ElementFormat::e4m3, ScaleRule::floor, 32);
  EXPECT_NEAR(floor.clipped_share(), 0.0085, 0.0005);
  EXPECT_NEAR(floor.clipped_blocks_share(), 0.17, 0.01);
  EXPECT_NEAR(floor.sqnr_db(), 30.7, 0.1);
  EXPECT_EQ(sums_of(all, ElementFormat::e4m3, ScaleRule::rceil, 32).clipped, 0u);
}

// Student's t with three degrees of freedom: FLOOR clips the tails that RCEIL keeps.
TEST(WhatIfLessons, HeavyTailsWidenTheGapOfFloor) {
  const std::vector<float> a = normal_values(4 * 256 * 1024);
  std::vector<float> x(256 * 1024);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double chi2 = 0;
    for (std::size_t k = 1; k < 4; ++k) chi2 += double{a[k * x.size() + i]} * a[k * x.size() + i];
    x[i] = static_cast<float>(a[i] / std::sqrt(chi2 / 3));
  }
  const std::vector<WhatIfRow> all = what_if({x.data(), 256, 1024, 1024});
  const double floor = sums_of(all, ElementFormat::e4m3, ScaleRule::floor, 32).sqnr_db();
  const double rceil = sums_of(all, ElementFormat::e4m3, ScaleRule::rceil, 32).sqnr_db();
  EXPECT_NEAR(rceil, 31.4, 0.4);
  EXPECT_GT(rceil - floor, 1.2) << "0.8 dB on bell-shaped data";
}

// Norm gains of about 0.93: with FLOOR every value clips to 0.875.
TEST(WhatIfLessons, GainsNearOneClipEverywhereWithFloor) {
  std::vector<float> x = normal_values(64 * 1024, 0.01);
  for (float& v : x) v += 0.93f;
  const std::vector<WhatIfRow> all = what_if({x.data(), 64, 1024, 1024});
  const QuantSums& floor = sums_of(all, ElementFormat::e4m3, ScaleRule::floor, 32);
  EXPECT_GT(floor.clipped_share(), 0.9999);
  EXPECT_NEAR(floor.sqnr_db(), 24.4, 0.1);
  std::vector<float> q(x.size());
  quantize_operand(
      {{x.data(), 64, 1024, 1024}, mx_format(ElementFormat::e4m3, ScaleRule::floor, 32), BlockAxis::row, {}},
      {q.data(), 64, 1024});
  EXPECT_TRUE(std::ranges::all_of(q, [](float v) { return v == 0.875f; }));
  EXPECT_NEAR(sums_of(all, ElementFormat::e4m3, ScaleRule::rceil, 32).sqnr_db(), 37.5, 0.5);
}

struct Neighbourhood {
  double sqnr_db, zeroed;
};
// Returns the SQNR of all values except those of the outlier channel, and the share of them that becomes zero.
Neighbourhood around_outlier_channel(ElementFormat element, float gain = 300) {
  constexpr std::size_t kRows = 1024, kCols = 128, kLoud = 5;
  std::vector<float> x = normal_values(kRows * kCols), q(x.size());
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t c = kLoud; c < kCols; c += 32) x[r * kCols + c] *= gain;
  quantize_operand({{x.data(), kRows, kCols, kCols}, mx_format(element, ScaleRule::rceil, 32), BlockAxis::row, {}},
                   {q.data(), kRows, kCols});
  double x2 = 0, err2 = 0, zeroed = 0, n = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 32 == kLoud) continue;
    x2 += double{x[i]} * x[i];
    err2 += (double{x[i]} - q[i]) * (double{x[i]} - q[i]);
    zeroed += q[i] == 0;
    ++n;
  }
  return {10 * std::log10(x2 / err2), zeroed / n};
}

TEST(WhatIfLessons, AnOutlierOf300LeavesMxfp8NeighboursAloneAndErasesMxfp4Ones) {
  const Neighbourhood mxfp8 = around_outlier_channel(ElementFormat::e4m3);
  EXPECT_NEAR(mxfp8.sqnr_db, 31.5, 0.15);
  EXPECT_NEAR(mxfp8.zeroed, 0.001, 0.001);
  const Neighbourhood mxfp4 = around_outlier_channel(ElementFormat::e2m1);
  EXPECT_NEAR(mxfp4.sqnr_db, 0.3, 0.2);
  EXPECT_NEAR(mxfp4.zeroed, 0.96, 0.015);
}

// E4M3's largest value is 448 * 2^6 times its smallest normal one, and 448 * 2^10 times half its smallest one.
TEST(WhatIfLessons, HowLoudAnOutlierMustBeForMxfp8) {
  EXPECT_GT(around_outlier_channel(ElementFormat::e4m3, 1e4f).sqnr_db, 29);
  const Neighbourhood subnormal = around_outlier_channel(ElementFormat::e4m3, 1e5f);
  EXPECT_LT(subnormal.sqnr_db, 26);
  EXPECT_LT(subnormal.zeroed, 0.4);
  EXPECT_GT(around_outlier_channel(ElementFormat::e4m3, 1e6f).zeroed, 0.7);
}

// Blocks along the tokens separate one loud channel from the others.
TEST(WhatIfLessons, TurningTheAxisSavesMxfp4FromALoudChannel) {
  constexpr std::size_t kRows = 1024, kCols = 32;
  std::vector<float> x = normal_values(kRows * kCols);
  for (std::size_t r = 0; r < kRows; ++r) x[r * kCols + 5] *= 300;
  const std::vector<WhatIfRow> all = what_if({x.data(), kRows, kCols, kCols});
  const QuantSums& rows = sums_of(all, ElementFormat::e2m1, ScaleRule::rceil, 32);
  const QuantSums& columns = sums_of(all, ElementFormat::e2m1, ScaleRule::rceil, 32, BlockAxis::column);
  EXPECT_GT(rows.underflow_share(), 0.9);
  EXPECT_LT(columns.underflow_share(), 0.12);
  EXPECT_NEAR(columns.sqnr_db(), 18.8, 0.3);
}

// Gradients over many binades: by SQNR a finer scale gains nothing, by underflow it gains much.
TEST(WhatIfLessons, SqnrHidesUnderflowOfWideRangeGradients) {
  constexpr std::size_t kRows = 1024, kCols = 512;
  const RandomStream stream(9, "magnitudes");
  std::vector<float> x = normal_values(kRows * kCols);
  for (std::size_t r = 0; r < kRows; ++r) {
    const double row_gain = std::exp2(6 * stream.normal(r));
    for (std::size_t c = 0; c < kCols; ++c)
      x[r * kCols + c] *= static_cast<float>(row_gain * std::exp2(4 * stream.normal(kRows + r * kCols + c)));
  }
  const std::vector<WhatIfRow> all = what_if({x.data(), kRows, kCols, kCols});
  const QuantSums& e4m3 = sums_of(all, ElementFormat::e4m3, ScaleRule::rceil, 32);
  const QuantSums& down = sums_of(all, ElementFormat::e4m3, ScaleRule::rceil, 512, BlockAxis::column);
  const QuantSums& e5m2 = sums_of(all, ElementFormat::e5m2, ScaleRule::rceil, 32);
  EXPECT_NEAR(e4m3.sqnr_db(), down.sqnr_db(), 2);
  EXPECT_GT(down.underflow_share(), 4 * e4m3.underflow_share());
  EXPECT_GT(e4m3.sqnr_db(), e5m2.sqnr_db() + 2);
  EXPECT_LT(e5m2.underflow_share(), 0.1 * e4m3.underflow_share());
}

}  // namespace
}  // namespace moescope
