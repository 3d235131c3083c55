// libFuzzer over logs in other programs' own formats: TensorBoard's event files, Megatron-LM's router traces, routed
// experts and log-probabilities of inference engines, TransformerEngine's statistics. Any bytes are read to their end
// or to the first damaged header, and records with a wrong checksum are counted. The fuzzer writes the bytes of
// records; their frames are added here, because otherwise no input would pass the checksum. How to run:
// CONTRIBUTING.md.
#include <stdexcept>

#include "core/logs/events/event_records.h"
#include "core/logs/log_probs.h"
#include "core/logs/log_readers.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

namespace {

// Imports the bytes as a file, which may be refused with a reason.
void require_read(Imported (*import)(const std::string&, const ImportOptions&), std::string_view bytes) {
  try {
    const Imported imported = import(as_file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), {});
    for (const BadLine& line : imported.bad.first()) require(!line.reason.empty(), "what is bad has a reason");
  } catch (const std::runtime_error& refused) {
    require(*refused.what() != 0, "says why it is refused");
  }
}

void require_log_probs(std::string_view bytes) {
  try {
    const LogProbs found = log_probs_in(bytes);
    require(compare_log_probs(found, found).tokens() > 0, "what was compared has tokens");
  } catch (const std::runtime_error& refused) {
    require(*refused.what() != 0, "says why it is refused");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  require_log_probs(bytes);
  for (const auto import : {import_events, import_trace, import_routed_experts, import_te_statistics})
    require_read(import, bytes);
  std::string framed;
  for (std::string_view unread = bytes; unread.size() >= 2;) {  // two bytes hold the length of the next record
    const std::size_t stated_length = static_cast<unsigned char>(unread[0]) | static_cast<unsigned char>(unread[1])
                                                                                  << 8;
    const std::size_t length = std::min(unread.size() - 2, stated_length);
    framed += framed_record(unread.substr(2, length));
    unread.remove_prefix(2 + length);
  }
  require_read(import_events, framed);
  return 0;
}
