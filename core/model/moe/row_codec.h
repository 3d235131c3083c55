// Encodes token rows for the transfer between ranks, as bytes of the format to which they were rounded.
//
// Legend: D values per row. fp32: 4 D bytes; bf16: 2 D; mx with E4M3 and blocks of 32: D codes, then D / 32 scale bytes
// (the last block of a row may be shorter). A row has the number of bytes that bytes_per_token() of parallel/volumes.h
// returns. Rows that were rounded to the format are decoded to equal bits, except for the payload of NaNs; other rows
// are rounded. Values of type double are sent unchanged: they are for gradient checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/numerics/operand.h"

namespace moescope {

template <class T>
class RowCodec {
 public:
  // `format` must be plain, bf16 or mx without rotation.
  RowCodec(const OperandFormat& format, Index dim);

  Index row_bytes() const { return row_bytes_; }
  bool copies() const { return copies_; }  // true if rows are sent as they are in memory
  // Rows must have no gaps.
  void encode(ConstMatrix<T> rows, std::uint8_t* bytes) const;
  void decode(const std::uint8_t* bytes, Matrix<T> rows) const;

 private:
  OperandFormat format_;
  Index dim_, row_bytes_;
  bool copies_;
};

}  // namespace moescope
