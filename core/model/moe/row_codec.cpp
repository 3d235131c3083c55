#include "core/model/moe/row_codec.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "core/numerics/block_quantize.h"
#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kCodedRows = 64;  // rows per task

Index bytes_of_row(const OperandFormat& format, Index dim) {
  if (format.scheme == QuantScheme::bf16) return 2 * dim;
  return dim + (dim + format.block - 1) / format.block;
}

void encode_bf16(const float* values, Index count, std::uint8_t* bytes) {
  for (Index i = 0; i < count; ++i) {
    const auto high = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(bf16_rounded(values[i])) >> 16);
    std::memcpy(bytes + 2 * i, &high, 2);
  }
}

void decode_bf16(const std::uint8_t* bytes, Index count, float* values) {
  for (Index i = 0; i < count; ++i) {
    std::uint16_t high;
    std::memcpy(&high, bytes + 2 * i, 2);
    values[i] = std::bit_cast<float>(std::uint32_t{high} << 16);
  }
}

}  // namespace

template <class T>
RowCodec<T>::RowCodec(const OperandFormat& format, Index dim)
    : format_(format), dim_(dim), copies_(std::is_same_v<T, double> || format.scheme == QuantScheme::fp32) {
  assert(copies_ || format.scheme == QuantScheme::bf16 || format.scheme == QuantScheme::mx);
  assert(format.hadamard == 0);
  row_bytes_ = copies_ ? dim_ * sizeof(T) : bytes_of_row(format, dim_);
}

template <class T>
void RowCodec<T>::encode(ConstMatrix<T> rows, std::uint8_t* bytes) const {
  if (copies_) {
    if (rows.rows > 0) std::memcpy(bytes, rows.data, rows.rows * row_bytes_);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    parallel_slices(rows.rows, kCodedRows, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) {
        std::uint8_t* to = bytes + r * row_bytes_;
        if (format_.scheme == QuantScheme::bf16)
          encode_bf16(rows.row(r), dim_, to);
        else
          quantize_rows(format_, rows.row_block(r, 1), to, to + dim_);
      }
    });
  }
}

template <class T>
void RowCodec<T>::decode(const std::uint8_t* bytes, Matrix<T> rows) const {
  if (copies_) {
    if (rows.rows > 0) std::memcpy(rows.data, bytes, rows.rows * row_bytes_);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    parallel_slices(rows.rows, kCodedRows, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) {
        const std::uint8_t* from = bytes + r * row_bytes_;
        if (format_.scheme == QuantScheme::bf16)
          decode_bf16(from, dim_, rows.row(r));
        else
          dequantize_rows(format_, from, from + dim_, rows.row_block(r, 1));
      }
    });
  }
}

template class RowCodec<float>;
template class RowCodec<double>;

}  // namespace moescope
