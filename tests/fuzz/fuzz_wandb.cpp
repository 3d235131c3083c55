// libFuzzer over W&B's offline files: the input as it is, and its records with the frames that are added here, because
// otherwise no input would pass the checksums. How to run: CONTRIBUTING.md.
#include <stdexcept>
#include <vector>

#include "core/logs/log_readers.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/wandb_bytes.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> records;
  for (std::string_view unread = bytes; unread.size() >= 2;) {  // two bytes hold the length of the next record
    const std::size_t stated_length = static_cast<unsigned char>(unread[0]) | static_cast<unsigned char>(unread[1])
                                                                                  << 8;
    records.emplace_back(unread.substr(2, stated_length));
    unread.remove_prefix(2 + records.back().size());
  }
  for (const std::string& file : {std::string(bytes), wandb_file(records)}) {
    try {
      const Imported imported = import_wandb(as_file(reinterpret_cast<const std::uint8_t*>(file.data()), file.size()));
      for (const BadLine& line : imported.bad.first()) require(!line.reason.empty(), "what is bad has a reason");
    } catch (const std::runtime_error& refused) {
      require(*refused.what() != 0, "says why it is refused");
    }
  }
  return 0;
}
