// Shared by the fuzzers of files of tensors: any bytes either open, and then every tensor can be read to its end, or
// are refused with a std::runtime_error that names the file. Anything else (another exception, a crash, a sanitizer's
// report, more memory than is allowed) is a bug.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/files/tensors/open_tensors.h"
#include "tests/fuzz/fuzz_input.h"

namespace moescope {

// Reads the first and the last values of a tensor, and all values if they are few. A tensor that repeats its values may
// have a billion of them.
inline void read_tensor(const TensorView& tensor) {
  constexpr std::size_t kRead = std::size_t{1} << 16;
  const std::size_t n = tensor.elements(), part = std::min(n, kRead);
  if (tensor.strides.empty())
    require((n * dtype_bits(tensor.dtype) + 7) / 8 == tensor.bytes.size(), "elements fill the bytes");
  require(tensor.floats(0, part).size() == part, "the first convert");
  require(tensor.floats(n - part, part).size() == part, "the last convert");
  if (n > part) return;
  require(tensor.floats().size() == n && tensor.doubles().size() == n, "every element converts");
  if (!tensor.floating()) require(tensor.integers().size() == n, "every integer converts");
}

inline void open_and_read(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  const std::string& path = as_file(data, size);  // the reader maps a file
  try {
    const TensorFile file = open_tensors(path);
    for (const TensorView& tensor : file.tensors()) {
      require(file.find(tensor.name) == &tensor, "a tensor is found under its own name");
      read_tensor(tensor);
    }
    file.at("no such tensor");
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).starts_with(path), "the message names the file");
  }
}

}  // namespace moescope
