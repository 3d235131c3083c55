// libFuzzer over the readers of .npy and .npz (fuzz_tensor_file.h). How to run: CONTRIBUTING.md.
#include "tests/fuzz/fuzz_tensor_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moescope::open_and_read(data, size);
  return 0;
}
