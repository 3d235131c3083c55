// libFuzzer over MLflow's database: any bytes are refused with the file's name, or read. How to run:
// CONTRIBUTING.md.
#include <stdexcept>

#include "core/logs/log_readers.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  const std::string& path = as_file(data, size);
  try {
    for (const auto& run : import_mlflow(path).runs) require(run->count() > 0, "a run has steps");
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with(path + ": "), "names the file");
  }
  return 0;
}
