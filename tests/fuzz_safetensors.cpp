// libFuzzer over the reader of .safetensors: any bytes either open, and then every tensor can be read to its end, or
// are refused with a std::runtime_error. Anything else (another exception, a crash, a sanitizer report) is a bug.
//   clang only:  cmake -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DMOESCOPE_FUZZ=ON && cmake --build build/fuzz -t
//   fuzz_safetensors run:         build/fuzz/tests/fuzz_safetensors -max_total_time=600 -max_len=4096 NEW_CORPUS
//   tests/fuzz/safetensors
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "core/safetensors.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

void read_everything(const moescope::SafetensorsFile& file) {
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
  // The reader maps a file, so the input becomes one, in memory: nothing touches a disk.
  static const int fd = ::memfd_create("fuzz_safetensors", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  require(::ftruncate(fd, 0) == 0, "truncate");
  require(::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size), "write");
  try {
    const moescope::SafetensorsFile file(path);
    read_everything(file);
    file.at("no such tensor");
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).find(path) == 0, "the message names the file");
  }
  return 0;
}
