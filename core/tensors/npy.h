// NumPy's .npy, one array: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, and .npz, a zip
// archive of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensors/tensor_file.h"

namespace moescope {

class ZipArchive;

struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<std::size_t> shape;
  std::size_t data_at = 0;  // where the values begin
  bool big_endian = false, columns_first = false;
};
// Of the first bytes of a file. ml_dtypes writes its types as bytes of no type: '<V2' is its bfloat16, '|V1' one of
// several types, which `bytes_are` says. Throws std::runtime_error with what is wrong and what is allowed.
NpyHeader npy_header(std::string_view bytes, std::optional<DType> bytes_are = std::nullopt);

// The array whose values are `data`. Throws std::runtime_error: they are more or fewer than its shape needs.
TensorView npy_tensor(const NpyHeader& header, std::string name, std::span<const std::byte> data);

// One tensor, named like the file without its suffix. Throws std::runtime_error "PATH: ..." with what is allowed.
std::shared_ptr<MappedTensors> read_npy(const std::string& path, std::optional<DType> bytes_are);

// Every array of an .npz, under its name there. Those that are no tensors are skipped.
void read_npz(MappedTensors& file, ZipArchive& archive, std::optional<DType> bytes_are);

}  // namespace moescope
