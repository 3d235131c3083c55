#include "core/model/moe/row_codec.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "core/numerics/block_quantize.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kCodedRows = 64;  // rows

std::size_t bytes_of_row(const OperandFormat& format, std::size_t dim) {
  if (format.scheme == QuantScheme::bf16) return 2 * dim;
  const auto block = static_cast<std::size_t>(format.block);
  return dim + (dim + block - 1) / block;
}

void encode_bf16(const float* values, std::size_t count, std::uint8_t* bytes) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto high = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(round_bf16(values[i])) >> 16);
    std::memcpy(bytes + 2 * i, &high, 2);
  }
}

void decode_bf16(const std::uint8_t* bytes, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t high;
    std::memcpy(&high, bytes + 2 * i, 2);
    values[i] = std::bit_cast<float>(std::uint32_t{high} << 16);
  }
}

}  // namespace

template <class T>
RowCodec<T>::RowCodec(const OperandFormat& format, int dim)
    : format_(format),
      dim_(static_cast<std::size_t>(dim)),
      copies_(std::is_same_v<T, double> || format.scheme == QuantScheme::fp32) {
  assert(copies_ || format.scheme == QuantScheme::bf16 || format.scheme == QuantScheme::mx);
  assert(format.hadamard == 0);
  row_bytes_ = copies_ ? dim_ * sizeof(T) : bytes_of_row(format, dim_);
}

template <class T>
void RowCodec<T>::encode(const T* rows_of, std::size_t rows, std::uint8_t* bytes) const {
  if (copies_) {
    if (rows > 0) std::memcpy(bytes, rows_of, rows * row_bytes_);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    parallel_slices(rows, kCodedRows, [&](std::size_t first, std::size_t last) {
      for (std::size_t r = first; r < last; ++r) {
        const float* row = rows_of + r * dim_;
        std::uint8_t* to = bytes + r * row_bytes_;
        if (format_.scheme == QuantScheme::bf16)
          encode_bf16(row, dim_, to);
        else
          quantize_rows(format_, {row, 1, dim_, dim_}, to, to + dim_);
      }
    });
  }
}

template <class T>
void RowCodec<T>::decode(const std::uint8_t* bytes, std::size_t rows, T* rows_of) const {
  if (copies_) {
    if (rows > 0) std::memcpy(rows_of, bytes, rows * row_bytes_);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    parallel_slices(rows, kCodedRows, [&](std::size_t first, std::size_t last) {
      for (std::size_t r = first; r < last; ++r) {
        const std::uint8_t* from = bytes + r * row_bytes_;
        if (format_.scheme == QuantScheme::bf16)
          decode_bf16(from, dim_, rows_of + r * dim_);
        else
          dequantize_rows(format_, from, from + dim_, 1, dim_, rows_of + r * dim_);
      }
    });
  }
}

template class RowCodec<float>;
template class RowCodec<double>;

}  // namespace moescope
