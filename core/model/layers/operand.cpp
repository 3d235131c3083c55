#include "core/model/layers/operand.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/numerics/threads.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

// Rows that a task of round_rows takes.
constexpr std::size_t kSlice = 128;

// How a matrix is cut for tasks: into rows as they lie in memory, or into columns where scales run all the way down.
struct Bands {
  BlockAxis axis;
  std::size_t extent;  // a multiple of blocks and rotations
};
Bands bands_of(const OperandFormat& format, BlockAxis axis) {
  constexpr std::size_t kFewRows = 64, kFp8Block = 128;
  const bool all_the_way = format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::row;
  if (all_the_way) return {axis, kFp8Block};
  const std::size_t block = format.scheme == QuantScheme::bf16 ? 1 : size(block_size(format));
  return {BlockAxis::row, std::lcm(std::lcm(block, size(std::max(format.hadamard, 1))), kFewRows)};
}

struct Band {
  MatrixView in;
  std::size_t offset, row, col;
};
Band band_of(MatrixView in, const Bands& bands, int index) {
  const std::size_t first = size(index) * bands.extent;
  if (bands.axis == BlockAxis::row)
    return {{in.data + first * in.stride, std::min(bands.extent, in.rows - first), in.cols, in.stride},
            first * in.stride,
            first,
            0};
  return {{in.data + first, in.rows, std::min(bands.extent, in.cols - first), in.stride}, first, 0, first};
}

int count_of(const Bands& bands, MatrixView in) {
  return static_cast<int>(((bands.axis == BlockAxis::row ? in.rows : in.cols) + bands.extent - 1) / bands.extent);
}

RoundingKey key_of(const Band& band, RoundingKey whole) {
  whole.first_row += static_cast<std::uint32_t>(band.row);
  whole.first_col += static_cast<std::uint32_t>(band.col);
  return whole;
}

// Rotated values are the calling thread's, until its next call.
PreparedOperand prepared(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key) {
  if (!has_tensor_scale(format)) return {format, in};
  thread_local std::vector<float> rotated;
  float* out = nullptr;
  if (rotates_whole(format)) {
    rotated.resize(std::max(rotated.size(), in.rows * in.stride));
    out = rotated.data();
  }
  const Bands bands = bands_of(format, axis);
  std::vector<float> amax(size(count_of(bands, in)));
  parallel_for(static_cast<int>(amax.size()), [&](int index) {
    const Band band = band_of(in, bands, index);
    const RoundingKey own = key_of(band, key);
    amax[size(index)] = out ? rotate_operand(format, band.in, axis, own, out + band.offset, in.stride)
                            : operand_amax(format, band.in, axis, own);
  });
  const float largest = std::accumulate(amax.begin(), amax.end(), 0.0f, larger_amax);
  if (!out) return {format, in, largest};
  return {unrotated(format), {out, in.rows, in.cols, in.stride}, largest};
}

// quantize(band, its key, its sums) for all bands.
void for_each_band(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, QuantSums* sums,
                   const auto& quantize) {
  const Bands bands = bands_of(format, axis);
  const int count = count_of(bands, in);
  std::vector<QuantSums> band_sums(sums ? size(count) : 0);
  parallel_for(count, [&](int index) {
    const Band band = band_of(in, bands, index);
    quantize(band, key_of(band, key), sums ? &band_sums[size(index)] : nullptr);
  });
  if (!sums) return;
  QuantSums total;
  for (const QuantSums& band : band_sums) total.add(band);
  if (format.scheme == QuantScheme::fp8 && has_tensor_scale(format)) total.join_blocks();
  sums->add(total);
}

void quantize_all(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key, float* out,
                  QuantSums* sums) {
  if (in.rows == 0 || in.cols == 0) return;
  const PreparedOperand s = prepared(format, in, axis, key);
  for_each_band(s.format, s.in, axis, key, sums, [&](const Band& band, const RoundingKey& own, QuantSums* band_sums) {
    quantize_operand_tile(s.format, band.in, axis, own, s.tensor_amax, out + band.offset, in.stride, band_sums);
  });
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

template <class T>
void quantize_alone(const OperandFormat& format, const T* in, int rows, int cols, std::size_t stride, BlockAxis axis,
                    const RoundingKey& key, T* out, QuantSums* sums) {
  if constexpr (std::is_same_v<T, float>)
    quantize_operand(format, {in, size(rows), size(cols), stride}, axis, key, out, stride, sums);
  else
    in_float(in, rows, cols, stride, out, [&](MatrixView narrow, float* rounded) {
      quantize_operand(format, narrow, axis, key, rounded, narrow.stride, sums);
    });
}

template <class T>
void quantize_in_bands(const OperandFormat& format, const T* in, int rows, int cols, std::size_t stride, BlockAxis axis,
                       const RoundingKey& key, T* out, QuantSums* sums) {
  if constexpr (std::is_same_v<T, float>)
    quantize_all(format, {in, size(rows), size(cols), stride}, axis, key, out, sums);
  else
    in_float(in, rows, cols, stride, out,
             [&](MatrixView narrow, float* rounded) { quantize_all(format, narrow, axis, key, rounded, sums); });
}

bool quantize_in_bands_bf16(const OperandFormat& format, MatrixView in, BlockAxis axis, const RoundingKey& key,
                            Bf16* out, float& scale, ScaleGrid grid, QuantSums* sums) {
  if (in.rows == 0 || in.cols == 0) return true;
  const PreparedOperand s = prepared(format, in, axis, key);
  scale = bf16_scale(format, s.tensor_amax);
  std::atomic<bool> all_fit = true;
  for_each_band(s.format, s.in, axis, key, sums, [&](const Band& band, const RoundingKey& own, QuantSums* band_sums) {
    ScaleGrid own_grid = grid;  // a band begins with a block
    const ScaleBlock block = fp8_block(format.granularity);
    const std::size_t along = axis == BlockAxis::row ? band.col : band.row, across = band.row + band.col - along;
    if (grid.scales) own_grid.scales += along / block.along * grid.stride + across / block.across;
    if (!quantize_operand_tile_bf16(s.format, band.in, axis, own, s.tensor_amax, out + band.offset, in.stride, own_grid,
                                    band_sums))
      all_fit = false;
  });
  return all_fit;
}

template <class T>
void round_rows(const OperandFormat& format, T* rows_of, std::size_t rows, int cols, QuantSums* sums) {
  std::vector<QuantSums> band_sums(sums ? (rows + kSlice - 1) / kSlice : 0);
  parallel_slices(rows, kSlice, [&](std::size_t first, std::size_t last) {
    const std::size_t n = (last - first) * size(cols);
    T* rounded = thread_scratch<T>(n);
    T* band = rows_of + first * size(cols);
    quantize_alone(format, band, static_cast<int>(last - first), cols, size(cols), BlockAxis::row, {}, rounded,
                   sums ? &band_sums[first / kSlice] : nullptr);
    std::copy_n(rounded, n, band);
  });
  for (const QuantSums& band : band_sums) sums->add(band);
}

#define INSTANTIATE(T)                                                                                 \
  template void quantize_alone<T>(const OperandFormat&, const T*, int, int, std::size_t, BlockAxis,    \
                                  const RoundingKey&, T*, QuantSums*);                                 \
  template void quantize_in_bands<T>(const OperandFormat&, const T*, int, int, std::size_t, BlockAxis, \
                                     const RoundingKey&, T*, QuantSums*);                              \
  template void round_rows<T>(const OperandFormat&, T*, std::size_t, int, QuantSums*)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace moescope
