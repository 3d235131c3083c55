// NumPy's .npy, one array: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<std::size_t> shape;
  std::size_t data_at = 0;  // where the values begin
};
// Of the first bytes of a file. Throws std::runtime_error with what is wrong and what is allowed.
NpyHeader npy_header(std::string_view bytes);

// One tensor, named like the file without its suffix. Throws std::runtime_error "PATH: ..." with what is allowed.
TensorFile read_npy(const std::string& path);

}  // namespace moescope
