// Any file of tensors, told by its first bytes: .safetensors, NumPy's .npy and .npz, and what torch.save writes; and
// checkpoints of several files.
#pragma once

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/tensors/tensor_file.h"

namespace moescope {

// What the values of a NumPy array without a type may be. ml_dtypes writes its types so: '<V2' is its bfloat16, '|V1'
// one of several, which somebody has to say.
inline constexpr std::array kUntypedAre = {DType::f8_e4m3, DType::f8_e5m2, DType::f8_e8m0, DType::bf16, DType::f16};
struct UntypedArray : std::runtime_error {
  UntypedArray(const std::string& what, std::size_t bits) : std::runtime_error(what), bits(bits) {}
  std::size_t bits;  // of a value
};

struct TensorOptions {
  std::optional<DType> bytes_are;  // of such arrays, if they have as many bits
};

// Codes with scales beside them are read as weights (code_scales.h). `path` may be an index that names the files of a
// checkpoint (model.safetensors.index.json), or a folder: its index, or else all .safetensors in it. Throws
// std::runtime_error or UntypedArray "PATH: ..." with what is wrong and what is allowed.
TensorFile open_tensors(const std::string& path, const TensorOptions& options = {});

// Whether a file that begins so is one of NumPy's arrays, or a zip archive, as torch.save writes.
bool begins_like_npy(std::string_view bytes);
bool begins_like_zip(std::string_view bytes);

bool is_checkpoint_index(const std::string& path);  // by its name
// In it lies an index, or .safetensors beside a config.json or with nothing else.
bool is_checkpoint_folder(const std::string& path);

}  // namespace moescope
