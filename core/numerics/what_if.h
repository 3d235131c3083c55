// Statistics of one tensor in every element format x scale rule x block size x axis: 336 choices.
//
// The statistics are exact: every value is quantized for every choice, without sampling. A tile is read once and stays
// in the first-level cache. Its lanes are independent blocks (rows are transposed first), so that no sum crosses lanes.
// The four rules give a block at most two different scales, 2^k and 2^(k+1), so that two quantizations serve four
// rules.
#pragma once

#include <array>
#include <span>
#include <stop_token>
#include <vector>

#include "core/numerics/quantize.h"

namespace moescope {

inline constexpr std::array<int, 7> kWhatIfBlocks = {8, 16, 32, 64, 128, 256, 512};
inline constexpr int kWhatIfRules = 4;

struct WhatIfRow {
  OperandFormat format;
  BlockAxis axis = BlockAxis::row;
  QuantSums sums;
};

// What-if for MX, ordered by axis, block size, format, rule. Counts equal those of quantize_operand(). Sums of squares
// agree with its sums to 1e-5, because stretches of 64 values are added in float32, then in double; where rounding
// reaches 2^128, its sums are infinite and these are not. The result does not depend on the number of threads. It is
// empty if `stop` was requested. `row_groups` holds the first row of each group of rows and the end; blocks down a
// column do not cross from one group into the next.
std::vector<WhatIfRow> what_if(ConstMatrix<float> in, std::stop_token stop = {},
                               std::span<const std::size_t> row_groups = {});
// Schemes whose scales are no powers of two: NVFP4, and FP8 in blocks of 1x128, per row and per tensor, in E4M3 along
// both axes. Every group of rows is a tensor of its own, as experts are in training.
inline constexpr int kWhatIfSchemes = 4;
// What-if for these schemes, ordered by axis and scheme. Sums equal those of quantize_operand() exactly. The result is
// empty if `stop` was requested.
std::vector<WhatIfRow> what_if_schemes(ConstMatrix<float> in, std::stop_token stop = {},
                                       std::span<const std::size_t> row_groups = {});

// Index of an MX format in the result of what_if(); -1 if what_if() does not use its block size.
int what_if_index(const OperandFormat& format, BlockAxis axis);

}  // namespace moescope
