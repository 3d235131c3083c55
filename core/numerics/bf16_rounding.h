// Rounds numbers to BF16 in place, to nearest, ties to even. NaN stays NaN; numbers that are too large become infinite.
#pragma once

#include <span>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/matrix.h"
#include "core/numerics/threads.h"

namespace moescope {

// Runs on the calling thread. Values of type double are rounded to float first.
template <class T>
void round_to_bf16(std::span<T> values) {
  for (T& value : values) value = static_cast<T>(bf16_rounded(static_cast<float>(value)));
}
template <class T>
void round_to_bf16(const Matrix<T>& rows) {
  for (Index r = 0; r < rows.rows; ++r) round_to_bf16(std::span<T>(rows.row(r), static_cast<std::size_t>(rows.cols)));
}

// Runs on all threads.
template <class T>
void round_all_to_bf16(const Matrix<T>& rows) {
  constexpr Index kSlice = 64;
  parallel_slices(rows.rows, kSlice,
                  [&](Index first, Index last) { round_to_bf16(rows.row_block(first, last - first)); });
}

}  // namespace moescope
