// libFuzzer over the readers of .safetensors, .npy and .pt: any bytes either open, and then every tensor can be read to
// its end, or are refused with a std::runtime_error. Anything else (another exception, a crash, a sanitizer report) is
// a bug. How to run: tests/CMakeLists.txt.
#include <stdexcept>
#include <string>

#include "core/files/tensors/open_tensors.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using moescope::require;

void read_everything(const moescope::TensorFile& file) {
  for (const moescope::TensorView& tensor : file.tensors()) {
    const std::size_t n = tensor.elements();
    require(n * moescope::dtype_bytes(tensor.dtype) == tensor.bytes.size(), "elements fill the bytes");
    require(tensor.floats().size() == n && tensor.doubles().size() == n, "every element converts");
    if (n > 1) require(tensor.floats(n / 2, n - n / 2).size() == n - n / 2, "a part converts");
    require(file.find(tensor.name) == &tensor, "a tensor is found under its own name");
    try {
      require(tensor.integers().size() == n, "every integer converts");
    } catch (const std::runtime_error&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = moescope::as_file(data, size);  // the reader maps a file
  try {
    const moescope::TensorFile file = moescope::open_tensors(path);
    read_everything(file);
    file.at("no such tensor");
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).find(path) == 0, "the message names the file");
  }
  return 0;
}
