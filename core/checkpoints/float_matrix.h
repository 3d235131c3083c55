// A matrix that owns its memory, which is not initialized.
#pragma once

#include <cstddef>
#include <memory>

#include "core/numerics/matrix.h"

namespace moescope {

class FloatMatrix {
 public:
  FloatMatrix(Index rows, Index cols)
      : memory_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(rows * cols))),
        view_(memory_.get(), rows, cols) {}
  FloatMatrix(const FloatMatrix&) = delete;
  FloatMatrix& operator=(const FloatMatrix&) = delete;

  const Matrix<float>& operator*() const { return view_; }
  const Matrix<float>* operator->() const { return &view_; }

 private:
  std::unique_ptr<float[]> memory_;
  Matrix<float> view_;
};

}  // namespace moescope
