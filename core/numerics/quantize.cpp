#include "core/numerics/quantize.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/numerics/kernels/convert.h"
#include "core/numerics/kernels/hadamard.h"
#include "core/numerics/kernels/quantize_blocks.h"
#include "core/numerics/rng.h"
#include "core/numerics/scale_rules.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kWholeTensor = ScaleBlock::kWhole;

// Numbers of rows and columns in memory, for example of the values that share a scale; kAll: all.
struct Scope {
  Index rows, cols;
};

bool has_one_fp8_scale(const OperandFormat& format) {
  return format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::tensor;
}

Scope scope_of(const OperandFormat& format, BlockAxis axis) {
  const ScaleBlock block = scale_block(format);
  return axis == BlockAxis::row ? Scope{block.across, block.along} : Scope{block.along, block.across};
}

// Pieces that one kernel converts ------------------------------------------------------------------------------------

void quantize_scaled(const Scaling& scaling, const Tile& t, Scope scope, float tensor_amax, QuantSums& sums) {
  if (scope.rows == 1) return quantize_row_blocks(scaling, t, scope.cols, sums);
  if (scope.cols == 1) return quantize_column_blocks(scaling, t, scope.rows, sums);
  if (scaling.format.scheme == QuantScheme::nvfp4) return quantize_squares(scaling, t, sums);
  if (scope.rows == kWholeTensor) return quantize_area(scaling, t, tensor_amax, sums);
  t.for_each_block(scope.rows, scope.cols,
                   [&](const Tile& area) { quantize_area(scaling, area, matrix_amax(area.in), sums); });
}

// Returns keys of columns [first, first + count) and 15 more, from a table of this thread that grows as needed.
const std::uint32_t* column_keys(std::uint32_t first, Index count) {
  thread_local std::vector<std::uint32_t> keys;
  for (Index c = std::ssize(keys); c < first + count + 15; ++c)
    keys.push_back(column_key(static_cast<std::uint32_t>(c)));
  return keys.data() + first;
}

void quantize_unscaled(const OperandFormat& format, const Tile& t, QuantSums& sums) {
  constexpr Index kElements = 4096;  // limits the number of squares that are added in float32
  const Index cols = std::min(t.in.cols, kElements);
  t.for_each_block(kElements / cols, cols, [&](const Tile& part) { convert_unscaled(format, part, sums); });
}

void quantize_unrotated(const OperandFormat& format, const Tile& t, float tensor_amax, QuantSums& sums) {
  if (format.scheme == QuantScheme::fp32 || format.scheme == QuantScheme::bf16)
    return quantize_unscaled(format, t, sums);
  quantize_scaled(scaling_of(format, tensor_amax), t, scope_of(format, t.axis), tensor_amax, sums);
}

// Rotated pieces -----------------------------------------------------------------------------------------------------

constexpr Index kRotatedElements = 16384;  // elements of a piece, which stays in the second-level cache
constexpr Index kRotatedCols = 256;        // largest number of columns of a piece with blocks down columns

// Returns the size of the pieces, which cut neither a block that shares a scale nor a block of the rotation.
Scope rotated_scope(const OperandFormat& format, BlockAxis axis, const Matrix<const float>& m) {
  const bool rows = axis == BlockAxis::row, squares = format.scheme == QuantScheme::nvfp4 && format.nvfp4.square,
             scaled = is_scaled(format) && (squares || !has_tensor_scale(format));
  const Scope scope = scaled ? scope_of(format, axis) : Scope{1, 1};
  const Index scale_along = rows ? scope.cols : scope.rows, scale_across = rows ? scope.rows : scope.cols;
  const Index length = rows ? m.cols : m.rows;
  const auto rounded_up = [](Index extent, Index unit) { return (extent + unit - 1) / unit * unit; };
  Index along = length;
  if (scale_along != kWholeTensor)
    along = rounded_up(rows ? std::min(length, kRotatedElements) : 1, std::lcm(scale_along, Index{format.hadamard}));
  const Index unit = rows ? scale_across : std::lcm(scale_across, Index{16});  // whole vectors of columns
  const Index fitting = kRotatedElements / std::min(along, length);
  const Index across = rounded_up(std::max<Index>(rows ? fitting : std::min(fitting, kRotatedCols), 1), unit);
  return rows ? Scope{across, along} : Scope{along, across};
}

Rotation rotation_of(const OperandFormat& format, const RoundingKey& key) {
  return {format.hadamard, format.rotation, key.rotation_seed};
}
Index first_along(BlockAxis axis, const RoundingKey& key) {
  return axis == BlockAxis::row ? key.first_col : key.first_row;
}

void quantize_rotated(const OperandFormat& format, const Tile& t, float tensor_amax, QuantSums& sums) {
  QuantSums all;
  thread_local std::vector<float> memory;
  const Scope scope = rotated_scope(format, t.axis, t.in);
  t.for_each_block(scope.rows, scope.cols, [&](Tile part) {
    memory.resize(std::max<std::size_t>(memory.size(), part.in.size()));
    const Matrix<float> values(memory.data(), part.in.rows, part.in.cols);
    hadamard_rotate(part.in, part.axis, rotation_of(format, part.key), first_along(part.axis, part.key), values);
    part.in = values;
    quantize_unrotated(format, part, tensor_amax, all);
  });
  if (has_one_fp8_scale(format)) all.count_as_one_block();
  sums.add(all);
}

// Quantizes the operand into the output of `tile`, whose other members are set here.
void quantize_tile(const Operand<float>& operand, Tile tile) {
  tile.in = operand.matrix;
  tile.axis = operand.axis;
  tile.key = operand.key;
  if (tile.in.empty()) return;
  if (operand.format.rounding == Rounding::stochastic) tile.column_keys = column_keys(tile.key.first_col, tile.in.cols);
  QuantSums unused, &sums = operand.sums ? *operand.sums : unused;
  const float tensor_amax = operand.tensor_amax.value_or(0);
  if (operand.format.hadamard)
    quantize_rotated(operand.format, tile, tensor_amax, sums);
  else
    quantize_unrotated(operand.format, tile, tensor_amax, sums);
}

// Bands for all threads ----------------------------------------------------------------------------------------------

// How a matrix is divided into bands: by its rows in memory, or by its columns if each column has one scale.
struct Bands {
  bool by_rows;
  Index extent;  // rows or columns of a band: a multiple of the blocks of the format and of its rotation
};
Bands bands_of(const Operand<float>& operand) {
  constexpr Index kFewRows = 64, kFp8Block = 128;
  const OperandFormat& format = operand.format;
  const bool all_the_way = format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::row;
  if (all_the_way) return {operand.axis == BlockAxis::row, kFp8Block};
  const Index block = format.scheme == QuantScheme::bf16 ? 1 : block_size(format);
  return {true, std::lcm(std::lcm(block, Index{std::max(format.hadamard, 1)}), kFewRows)};
}

// Calls body(index, first row, first column, band) on all threads.
void for_each_band(const Operand<float>& operand, const auto& body) {
  const Bands bands = bands_of(operand);
  const Matrix<const float>& m = operand.matrix;
  const Index length = bands.by_rows ? m.rows : m.cols;
  parallel_for(to_int((length + bands.extent - 1) / bands.extent), [&](int index) {
    const Index first = index * bands.extent, count = std::min(bands.extent, length - first);
    if (bands.by_rows)
      body(index, first, 0, operand.block(first, 0, count, m.cols));
    else
      body(index, 0, first, operand.block(0, first, m.rows, count));
  });
}

std::size_t count_of_bands(const Operand<float>& operand) {
  const Bands bands = bands_of(operand);
  return ((bands.by_rows ? operand.matrix.rows : operand.matrix.cols) + bands.extent - 1) / bands.extent;
}

// Returns the operand, with its amax if its format has a tensor-wide scale. If the operand has to be rotated for that,
// returns the rotated values and a format without rotation, so that nothing is rotated twice. The memory of the rotated
// values belongs to the calling thread and is valid until its next call.
Operand<float> with_amax(Operand<float> operand, Threads threads) {
  if (!has_tensor_scale(operand.format) || operand.tensor_amax) return operand;
  thread_local std::vector<float> memory;
  const Matrix<const float>& in = operand.matrix;
  Matrix<float> out(static_cast<float*>(nullptr), in.rows, in.cols);
  if (operand.format.hadamard) {
    memory.resize(std::max<std::size_t>(memory.size(), in.size()));
    out.data = memory.data();
  }
  const auto amax_of = [&](const Operand<float>& band, Index row, Index col) {
    if (!out.data) return matrix_amax(band.matrix);
    return rotated_amax(band.matrix, band.axis, rotation_of(band.format, band.key), first_along(band.axis, band.key),
                        out.block(row, col, band.matrix.rows, band.matrix.cols));
  };
  if (threads == Threads::calling) {
    operand.tensor_amax = amax_of(operand, 0, 0);
  } else {
    std::vector<float> amax(count_of_bands(operand));
    for_each_band(operand, [&](int index, Index row, Index col, const Operand<float>& band) {
      amax[index] = amax_of(band, row, col);
    });
    operand.tensor_amax = std::accumulate(amax.begin(), amax.end(), 0.0f, larger_amax);
  }
  if (out.data) {
    operand.format.hadamard = 0;
    operand.matrix = out;
  }
  return operand;
}

// Calls quantize(first row, first column, band) for all bands and joins their statistics.
void quantize_bands(const Operand<float>& operand, const auto& quantize) {
  std::vector<QuantSums> band_sums(operand.sums ? count_of_bands(operand) : 0);
  for_each_band(operand, [&](int index, Index row, Index col, Operand<float> band) {
    if (band.sums) band.sums = &band_sums[index];
    quantize(row, col, band);
  });
  if (!operand.sums) return;
  QuantSums total;
  for (const QuantSums& band : band_sums) total.add(band);
  if (has_one_fp8_scale(operand.format)) total.count_as_one_block();
  operand.sums->add(total);
}

float bf16_scale(const OperandFormat& format, float tensor_amax) {
  if (format.scheme == QuantScheme::nvfp4)
    return format.nvfp4.rule == Nvfp4Rule::divided ? nvfp4_tensor_scale(tensor_amax)
                                                   : static_cast<float>(nvfp4_tensor(format.nvfp4, tensor_amax).unit);
  if (has_one_fp8_scale(format))
    return 1 / fp8_encoding_scale(traits(format.element).max, format.power_of_two_scale, tensor_amax);
  return 1;
}

}  // namespace

float operand_amax(const Operand<float>& operand) {
  const Matrix<const float>& m = operand.matrix;
  if (!operand.format.hadamard) return matrix_amax(m);
  return rotated_amax(m, operand.axis, rotation_of(operand.format, operand.key),
                      first_along(operand.axis, operand.key));
}

float larger_amax(float a, float b) {
  return std::isfinite(a) && !(b <= a) ? b : a;
}

void quantize_operand(const Operand<float>& operand, Matrix<float> out, Threads threads) {
  if (operand.matrix.empty()) return;
  const Operand<float> whole = with_amax(operand, threads);
  if (threads == Threads::calling) return quantize_tile(whole, {.out = out});
  quantize_bands(whole, [&](Index row, Index col, const Operand<float>& band) {
    quantize_tile(band, {.out = out.block(row, col, band.matrix.rows, band.matrix.cols)});
  });
}

void quantize_operand(const Operand<double>& operand, Matrix<double> out, Threads threads) {
  const Matrix<const double>& in = operand.matrix;
  std::vector<float> narrow(in.size()), rounded(in.size());
  for (Index r = 0; r < in.rows; ++r) std::copy_n(in.row(r), in.cols, narrow.data() + r * in.cols);
  const Matrix<float> decoded(rounded.data(), in.rows, in.cols);
  quantize_operand({{narrow.data(), in.rows, in.cols}, operand.format, operand.axis, operand.key, operand.sums},
                   decoded, threads);
  for (Index r = 0; r < in.rows; ++r) std::copy_n(decoded.row(r), in.cols, out.row(r));
}

template <class T>
void round_rows(const OperandFormat& format, Matrix<T> rows, QuantSums* sums) {
  constexpr Index kSlice = 128;
  std::vector<QuantSums> band_sums(sums ? (rows.rows + kSlice - 1) / kSlice : 0);
  parallel_slices(rows.rows, kSlice, [&](Index first, Index last) {
    const Matrix<T> band = rows.row_block(first, last - first);
    const Matrix<T> rounded(thread_scratch<T>(band.size()), band.rows, band.cols);
    quantize_operand({band, format, BlockAxis::row, {}, sums ? &band_sums[first / kSlice] : nullptr}, rounded);
    for (Index r = 0; r < band.rows; ++r) std::copy_n(rounded.row(r), band.cols, band.row(r));
  });
  for (const QuantSums& band : band_sums) sums->add(band);
}
template void round_rows<float>(const OperandFormat&, Matrix<float>, QuantSums*);
template void round_rows<double>(const OperandFormat&, Matrix<double>, QuantSums*);

bool fits_bf16(const OperandFormat& format) {
  return format.scheme != QuantScheme::fp32;
}

std::optional<float> quantize_operand_bf16(const Operand<float>& operand, Matrix<Bf16> out, const ScaleGrid& grid,
                                           Threads threads) {
  assert(fits_bf16(operand.format) && (!operand.has_grid() || grid.scales));
  if (operand.matrix.empty()) return 1;
  const Operand<float> whole = with_amax(operand, threads);
  const float scale = bf16_scale(whole.format, whole.tensor_amax.value_or(0));
  std::atomic<bool> all_fit = scale >= std::numeric_limits<float>::min();
  const auto quantize = [&](Index row, Index col, const Operand<float>& band) {
    bool too_small = false;
    const ScaleGrid band_grid = whole.axis == BlockAxis::row ? grid.from(col, row) : grid.from(row, col);
    quantize_tile(
        band,
        {.bf16 = out.block(row, col, band.matrix.rows, band.matrix.cols), .too_small = &too_small, .grid = band_grid});
    if (too_small) all_fit = false;
  };
  if (threads == Threads::calling)
    quantize(0, 0, whole);
  else
    quantize_bands(whole, quantize);
  return all_fit ? std::optional(scale) : std::nullopt;
}

}  // namespace moescope
