// Opens any file of tensors, recognised by its first bytes: .safetensors, NumPy's .npy and .npz, files of torch.save;
// also checkpoints of several files.
#pragma once

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/files/tensors/tensor_file.h"

namespace moescope {

// Possible types of a NumPy array without a type. ml_dtypes writes its types in this way: '<V2' is its bfloat16, '|V1'
// one of several types, so that the user has to choose.
inline constexpr std::array kTypesOfUntypedBytes = {DType::f8_e4m3, DType::f8_e5m2, DType::f8_e8m0, DType::bf16,
                                                    DType::f16};
struct UntypedArray : std::runtime_error {
  UntypedArray(const std::string& what, std::size_t bits) : std::runtime_error(what), bits(bits) {}
  std::size_t bits;  // bits of a value
};

// Opens a file of tensors. Codes with scales in other tensors are read as weights (code_scales.h). `path` may be an
// index that names the files of a checkpoint (model.safetensors.index.json), or a folder; then its index is opened, or
// else all .safetensors in it. `bytes_are` is the type of arrays whose file states none, if their values have as many
// bits. Throws std::runtime_error or UntypedArray "PATH: ..." with the reason and what is allowed.
TensorFile open_tensors(const std::string& path, std::optional<DType> bytes_are = {});

// True if these are the first bytes of a NumPy array, or of a zip archive, which torch.save and numpy.savez write.
bool begins_like_npy(std::string_view bytes);
bool begins_like_zip(std::string_view bytes);

bool is_checkpoint_index(const std::string& path);  // judged by the name
// True if an index places a tensor in this file. Throws std::runtime_error "INDEX: ..." if it cannot be read.
bool index_names(const std::string& index, const std::string& file);
// True if the folder holds an index, or .safetensors files and either a config.json or no other files.
bool is_checkpoint_folder(const std::string& path);

// Returns "is a Parquet file, which is not read: ..." for the file or folder `path`; empty if it is in none of these
// forms. Reads the first bytes of a file, the names in a folder, and the names of the tables of a database.
// Throws std::runtime_error with the path if a file cannot be read.
std::string unread_form(const std::string& path);

// True if these first bytes of a file are no text of any encoding: they have a NUL or other control characters.
bool is_binary(std::string_view bytes);

}  // namespace moescope
