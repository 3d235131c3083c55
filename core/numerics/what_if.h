// Statistics of one tensor in every element format x scale rule x block size x axis: 336 choices.
//
// Exact, without sampling: every value is quantized for every choice. It is fast because a tile is read once and stays
// in the first-level cache; its lanes are independent blocks (rows are transposed first), so that no sum crosses lanes;
// and the four rules of a block give at most two different scales, 2^k and 2^(k+1), so that two quantizations serve
// four rules.
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

// What-if for MX, ordered by axis, block size, format, rule. Sums agree with quantize_operand's: counts exactly, sums
// of squares to 1e-5 (float32 in stretches of 64, double beyond; where rounding reaches 2^128 the quantizer's sums are
// infinite, these are not). Independent of the number of threads. Empty if stopped. `row_groups` holds the first row of
// each group of rows and the end; blocks down a column do not cross from one group into the next.
std::vector<WhatIfRow> what_if(ConstMatrix<float> in, std::stop_token stop = {},
                               std::span<const std::size_t> row_groups = {});
// Schemes whose scales are no powers of two: NVFP4, and FP8 in blocks of 1x128, per row and per tensor, in E4M3 along
// both axes. Every group of rows is a tensor of its own, as experts are in training.
inline constexpr int kWhatIfSchemes = 4;
// What-if for these schemes, ordered by axis and scheme. Sums equal quantize_operand's exactly. Empty if stopped.
std::vector<WhatIfRow> what_if_schemes(ConstMatrix<float> in, std::stop_token stop = {},
                                       std::span<const std::size_t> row_groups = {});

// Index of an MX format in the result of what_if(); -1 if what_if() does not use its block size.
int what_if_index(const OperandFormat& format, BlockAxis axis);

}  // namespace moescope
