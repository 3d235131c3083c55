// libFuzzer over checkpoints: any bytes either are a checkpoint, whose training can be resumed, or are refused with a
// std::runtime_error that names the file. A small file cannot claim a large model. How to run: CONTRIBUTING.md.
#include <stdexcept>

#include "core/config/config_check.h"
#include "core/numerics/threads.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/trainer.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  set_num_threads(1);
  const std::string& path = as_file(data, size);
  try {
    write_checksum(path);  // without it almost every input would be refused before anything is read
    const Trainer trainer = Trainer::resume(path);
    require(trainer.steps_taken() >= 0, "steps are counted from 0");
    require(validate(trainer.config()).empty(), "its settings are valid");
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).find(path) == 0, "the message names the file");
  }
  return 0;
}
