// NumPy's .npy, one array: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, and .npz, a zip
// archive of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensors/open_tensors.h"

namespace moescope {

class ZipArchive;

struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<std::size_t> shape;
  std::size_t data_at = 0;  // where the values begin
  bool big_endian = false, columns_first = false;
};
// Of the first bytes of a file. `bytes_are`: the type of values without one, if they have as many bits. Throws
// std::runtime_error with what is wrong and what is allowed, UntypedArray where nothing says the type.
NpyHeader npy_header(std::string_view bytes, std::optional<DType> bytes_are = std::nullopt);

// The array whose values are `data`. Throws std::runtime_error: they are more or fewer than its shape needs.
TensorView npy_tensor(const NpyHeader& header, std::string name, std::span<const std::byte> data);

// One tensor, named like the file without its suffix. Throws std::runtime_error or UntypedArray "PATH: ..." with what
// is allowed.
std::shared_ptr<MappedTensors> read_npy(const std::string& path, std::optional<DType> bytes_are);

// Every array of an .npz, under its name there. Those that are no tensors are skipped.
void read_npz(MappedTensors& file, ZipArchive& archive, std::optional<DType> bytes_are);

}  // namespace moescope
