// Reads NumPy's .npy, a single array (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), and
// .npz, a zip archive of such arrays.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/tensors/open_tensors.h"

namespace moescope {

class ZipArchive;

struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<std::size_t> shape;
  std::size_t data_at = 0;  // position of the values
  bool big_endian = false, columns_first = false;
};
// Parses the first bytes of a file. `bytes_are` is the type of the values if the file does not state one; it must have
// the same number of bits. Throws std::runtime_error with the reason and what is allowed, UntypedArray if the type is
// not known.
NpyHeader npy_header(std::string_view bytes, std::optional<DType> bytes_are = std::nullopt);

// Returns the header of an array whose type is `descr`, as in a file: "<i8". Throws as npy_header() does.
NpyHeader npy_described(const std::string& descr, std::vector<std::size_t> shape, bool columns_first);

// Returns the array whose values are `data`. Throws std::runtime_error if their number does not fit the shape.
TensorView npy_tensor(const NpyHeader& header, std::string name, std::span<const std::byte> data);

// Reads one tensor, named like the file without its suffix. Throws std::runtime_error or UntypedArray "PATH: ..." with
// what is allowed.
std::shared_ptr<MappedTensors> read_npy(const std::string& path, std::optional<DType> bytes_are);

// Adds every array of an .npz under its name in the archive. Entries that are not tensors are skipped.
void read_npz(MappedTensors& file, ZipArchive& archive, std::optional<DType> bytes_are);

}  // namespace moescope
