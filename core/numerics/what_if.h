// One tensor in every element format x scale rule x block size x axis: 336 choices, each with all its statistics.
//
// Exact, no sampling: every value is quantized for every choice. What makes it quick: a tile is read once and stays in
// the first cache; its lanes are independent blocks (rows are transposed first), so that nothing is summed across
// lanes; and of the four rules of a block at most two different scales come out, 2^k and 2^(k+1), so that two
// quantizations serve four rules.
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

// In MX. Ordered by axis, block size, format, rule. Sums agree with quantize_operand's: counts exactly, sums of squares
// to 1e-5 (float32 in stretches of 64, double beyond;
// where rounding reaches 2^128 the quantizer's sums are infinite, these are not). Independent of the number of threads.
// Empty when stopped.
// `row_groups`: first row of each group of rows and the end; blocks down a column do not cross from one into the next.
std::vector<WhatIfRow> what_if(ConstMatrix<float> in, std::stop_token stop = {},
                               std::span<const std::size_t> row_groups = {});
// The same for schemes whose scales are no powers of two: NVFP4, and FP8 in blocks of 1x128, per row and per tensor, in
// E4M3 along both axes. Every group of rows is a tensor of its own, as the experts are in training.
inline constexpr int kWhatIfSchemes = 4;
// Ordered by axis and scheme. Exactly quantize_operand's. Empty when stopped.
std::vector<WhatIfRow> what_if_schemes(ConstMatrix<float> in, std::stop_token stop = {},
                                       std::span<const std::size_t> row_groups = {});

// Position of an MX format in it; -1 for a block size that is not among them.
int what_if_index(const OperandFormat& format, BlockAxis axis);

}  // namespace moescope
