// A matrix that owns its memory.
#pragma once

#include <vector>

#include "core/numerics/matrix.h"

namespace moescope {

class FloatMatrix {
 public:
  FloatMatrix(Index rows, Index cols)
      : memory_(static_cast<std::size_t>(rows * cols)), view_(memory_.data(), rows, cols) {}
  FloatMatrix(const FloatMatrix&) = delete;
  FloatMatrix& operator=(const FloatMatrix&) = delete;

  const Matrix<float>& operator*() const { return view_; }
  const Matrix<float>* operator->() const { return &view_; }

 private:
  std::vector<float> memory_;
  Matrix<float> view_;
};

}  // namespace moescope
