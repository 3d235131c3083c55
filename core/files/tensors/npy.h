// NumPy's .npy, one array: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <string>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

// One tensor, named like the file without its suffix. Throws std::runtime_error "PATH: ..." with what is allowed.
TensorFile read_npy(const std::string& path);

}  // namespace moescope
