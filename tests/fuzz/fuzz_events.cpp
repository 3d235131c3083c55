// libFuzzer over logs in other programs' own formats: TensorBoard's event files, Megatron-LM's router traces, routed
// experts and log-probabilities of inference engines, TransformerEngine's statistics. Any bytes are read to their end
// or to the first damaged header, records whose sums are wrong counted. The fuzzer writes records' bytes; their frames
// are put around them here, else no input would get past the checksum. How to run: CONTRIBUTING.md.
#include <stdexcept>

#include "core/logs/events/event_records.h"
#include "core/logs/events/import_events.h"
#include "core/logs/lines/import_te_statistics.h"
#include "core/logs/log_probs.h"
#include "core/logs/routing/import_routed_experts.h"
#include "core/logs/routing/import_trace.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

namespace {

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
  BadLines bad;
  require_log_probs(bytes);
  try {
    read_event_bytes(bytes, bad);
    read_trace_bytes(bytes, bad);
    read_routed_bytes(bytes, bad);
    read_te_statistics_bytes(bytes, bad);
    std::string framed;
    for (std::string_view rest = bytes; rest.size() >= 2;) {  // two bytes say how long the next record is
      const std::size_t wanted = static_cast<unsigned char>(rest[0]) | static_cast<unsigned char>(rest[1]) << 8;
      const std::size_t length = std::min(rest.size() - 2, wanted);
      framed += framed_record(rest.substr(2, length));
      rest.remove_prefix(2 + length);
    }
    read_event_bytes(framed, bad);
  } catch (const std::runtime_error& error) {
    require(std::string(error.what()).find("more than can be shown") != std::string::npos, "only too much is refused");
  }
  for (const BadLine& line : bad.first()) require(!line.why.empty(), "what is bad has a reason");
  return 0;
}
