// Tensors that torch.save wrote: a zip archive of a pickle and of the raw bytes of each storage (PyTorch 1.6 and
// later). The pickle is read and not run (pickle.h): what it holds besides tensors is passed over, and functions of
// others are refused by name.
#pragma once

#include <string>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

// Tensors in dicts and lists are named by the way to them, "layers.0.w1"; a tensor alone is named like the file without
// its suffix. Throws std::runtime_error "PATH: ..." with what is wrong and what is allowed.
TensorFile read_torch(const std::string& path);

}  // namespace moescope
