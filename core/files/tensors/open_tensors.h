// Any file of tensors, told by its first bytes: .safetensors, NumPy's .npy, and what torch.save writes.
#pragma once

#include <string>
#include <string_view>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

// Throws std::runtime_error "PATH: ..." with what is wrong and what is allowed.
TensorFile open_tensors(const std::string& path);

// Whether a file that begins so is one of NumPy's arrays, or a zip archive, as torch.save writes.
bool begins_like_npy(std::string_view bytes);
bool begins_like_zip(std::string_view bytes);

}  // namespace moescope
