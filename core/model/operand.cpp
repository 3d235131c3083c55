#include "core/model/operand.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/numerics/hadamard.h"
#include "core/numerics/parallel.h"

namespace moescope {
namespace {

constexpr std::size_t kBand = 128;

std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

// Rows of the operand as the GEMM reads it, which share scales along their whole length at most.
struct Band {
  MatrixView in;
  std::size_t offset, row, col;
};
Band band_of(MatrixView in, BlockAxis axis, int index) {
  const std::size_t first = size(index) * kBand;
  if (axis == BlockAxis::row)
    return {{in.data + first * in.stride, std::min(kBand, in.rows - first), in.cols, in.stride},
            first * in.stride,
            first,
            0};
  return {{in.data + first, in.rows, std::min(kBand, in.cols - first), in.stride}, first, 0, first};
}

int num_bands(MatrixView in, BlockAxis axis) {
  return static_cast<int>(((axis == BlockAxis::row ? in.rows : in.cols) + kBand - 1) / kBand);
}

float amax_of_bands(MatrixView in, BlockAxis axis) {
  std::vector<float> amax(size(num_bands(in, axis)));
  parallel_for(static_cast<int>(amax.size()),
               [&](int band) { amax[size(band)] = matrix_amax(band_of(in, axis, band).in); });
  float largest = 0;
  for (const float value : amax) {
    if (!std::isfinite(value)) return value;
    largest = std::max(largest, value);
  }
  return largest;
}

// The bands of a tensor that has one scale each counted themselves as a block.
void count_as_one_block(QuantSums& sums) {
  for (std::uint32_t& blocks : sums.e8m0_blocks) blocks = std::min(blocks, 1u);
  sums.blocks = 1;
  sums.clipped_blocks = std::min<std::uint64_t>(sums.clipped_blocks, 1);
  if (sums.crest_blocks == 0) return;
  sums.crest_blocks = 1;
  sums.crest = sums.amax / std::sqrt(sums.x2 / static_cast<double>(sums.elements));
}

void quantize_bands(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                    QuantSums* sums) {
  const int bands = num_bands(in, axis);
  const float amax = has_tensor_scale(format) ? amax_of_bands(in, axis) : 0;
  std::vector<QuantSums> band_sums(sums ? size(bands) : 0);
  parallel_for(bands, [&](int index) {
    const Band band = band_of(in, axis, index);
    RoundingKey own = key;
    own.first_row += static_cast<std::uint32_t>(band.row);
    own.first_col += static_cast<std::uint32_t>(band.col);
    quantize_operand_tile(format, band.in, axis, own, amax, out + band.offset, in.stride,
                          sums ? &band_sums[size(index)] : nullptr);
  });
  if (!sums) return;
  QuantSums total;
  for (const QuantSums& band : band_sums) total.add(band);
  if (format.scheme == QuantScheme::fp8 && has_tensor_scale(format)) count_as_one_block(total);
  sums->add(total);
}

void quantize_all(OperandFormat format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                  QuantSums* sums) {
  if (in.rows == 0 || in.cols == 0) return;
  if (!format.hadamard || !has_tensor_scale(format)) return quantize_bands(format, in, axis, key, out, sums);
  // The scale follows from the largest rotated value.
  std::vector<float> rotated(in.rows * in.stride);
  parallel_for(num_bands(in, axis), [&](int index) {
    const Band band = band_of(in, axis, index);
    hadamard_rotate(band.in, axis, format.hadamard, key.rotation_seed, 0, rotated.data() + band.offset, in.stride);
  });
  format.hadamard = 0;
  quantize_bands(format, {rotated.data(), in.rows, in.cols, in.stride}, axis, key, out, sums);
}

// Runs `quantize` on float copies of the matrix.
void in_float(const double* in, int rows, int cols, std::size_t stride, double* out, const auto& quantize) {
  const std::size_t n = size(rows) * size(cols);
  std::vector<float> narrow(n), rounded(n);
  for (std::size_t r = 0; r < size(rows); ++r)
    for (std::size_t i = 0; i < size(cols); ++i) narrow[r * size(cols) + i] = static_cast<float>(in[r * stride + i]);
  quantize(MatrixView{narrow.data(), size(rows), size(cols), size(cols)}, rounded.data());
  for (std::size_t r = 0; r < size(rows); ++r)
    for (std::size_t i = 0; i < size(cols); ++i) out[r * stride + i] = static_cast<double>(rounded[r * size(cols) + i]);
}

}  // namespace

template <>
void quantize_alone(const OperandFormat& format, const float* in, int rows, int cols, std::size_t stride,
                    BlockAxis axis, const RoundingKey& key, float* out, QuantSums* sums) {
  quantize_operand(format, {in, size(rows), size(cols), stride}, axis, key, out, stride, sums);
}

template <>
void quantize_alone(const OperandFormat& format, const double* in, int rows, int cols, std::size_t stride,
                    BlockAxis axis, const RoundingKey& key, double* out, QuantSums* sums) {
  in_float(in, rows, cols, stride, out, [&](MatrixView narrow, float* rounded) {
    quantize_operand(format, narrow, axis, key, rounded, narrow.stride, sums);
  });
}

template <>
void quantize_in_bands(const OperandFormat& format, const float* in, int rows, int cols, std::size_t stride,
                       BlockAxis axis, const RoundingKey& key, float* out, QuantSums* sums) {
  quantize_all(format, {in, size(rows), size(cols), stride}, axis, key, out, sums);
}

template <>
void quantize_in_bands(const OperandFormat& format, const double* in, int rows, int cols, std::size_t stride,
                       BlockAxis axis, const RoundingKey& key, double* out, QuantSums* sums) {
  in_float(in, rows, cols, stride, out,
           [&](MatrixView narrow, float* rounded) { quantize_all(format, narrow, axis, key, rounded, sums); });
}

template <class T>
void round_rows(const OperandFormat& format, T* rows_of, std::size_t rows, int cols) {
  parallel_slices(rows, kBand, [&](std::size_t first, std::size_t last) {
    const std::size_t n = (last - first) * size(cols);
    T* rounded = thread_scratch<T>(n);
    T* band = rows_of + first * size(cols);
    quantize_alone(format, band, static_cast<int>(last - first), cols, size(cols), BlockAxis::row, {}, rounded,
                   nullptr);
    std::copy_n(rounded, n, band);
  });
}
template void round_rows<float>(const OperandFormat&, float*, std::size_t, int);
template void round_rows<double>(const OperandFormat&, double*, std::size_t, int);

}  // namespace moescope
