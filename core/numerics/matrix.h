// Views of row-major matrices. Rows, columns and strides have one signed type, so that no caller converts them.
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#include "core/numerics/index.h"

namespace moescope {

// `stride` is the number of elements from row to row. Copies view the same elements. Debug builds check bounds.
template <class T>
struct Matrix {
  T* data = nullptr;
  Index rows = 0, cols = 0, stride = 0;

  Matrix() = default;
  Matrix(T* elements, std::integral auto n_rows, std::integral auto n_cols, std::integral auto row_stride)
      : data(elements),
        rows(static_cast<Index>(n_rows)),
        cols(static_cast<Index>(n_cols)),
        stride(static_cast<Index>(row_stride)) {
    assert(rows >= 0 && cols >= 0 && (stride >= cols || rows <= 1));
  }
  // A matrix whose rows have no gaps.
  Matrix(T* elements, std::integral auto n_rows, std::integral auto n_cols)
      : Matrix(elements, n_rows, n_cols, n_cols) {}
  template <class U>
    requires std::same_as<const U, T>
  Matrix(const Matrix<U>& other) : data(other.data), rows(other.rows), cols(other.cols), stride(other.stride) {}

  Index size() const { return rows * cols; }
  bool empty() const { return rows == 0 || cols == 0; }
  // r may be one past the last row.
  T* row(Index r) const {
    assert(r >= 0 && r <= rows);
    return data + r * stride;
  }
  std::span<T> values(Index r) const { return {row(r), static_cast<std::size_t>(cols)}; }
  T& at(Index r, Index c) const {
    assert(r >= 0 && r < rows && c >= 0 && c < cols);
    return data[r * stride + c];
  }
  Matrix block(Index first_row, Index first_col, Index n_rows, Index n_cols) const {
    assert(first_row >= 0 && first_row + n_rows <= rows && first_col >= 0 && first_col + n_cols <= cols);
    return {data ? data + first_row * stride + first_col : nullptr, n_rows, n_cols, stride};
  }
  Matrix row_block(Index first, Index count) const { return block(first, 0, count, cols); }
  Matrix col_block(Index first, Index count) const { return block(0, first, rows, count); }
};

// A matrix that is only read. T is not deduced, so that a Matrix<T> converts.
template <class T>
using ConstMatrix = std::type_identity_t<Matrix<const T>>;

}  // namespace moescope
