// libFuzzer over text logs: what programs print (TorchTitan, Megatron-LM, Python's dicts of the Trainer, ...) and
// trainer_state.json, which may be refused with a reason. Any other bytes are read to their end, in little memory and
// time. Lines without a step are skipped, and the steps that were read are in order. How to run: CONTRIBUTING.md.
#include <algorithm>
#include <stdexcept>

#include "core/files/text/json_line.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/lines/text_log.h"
#include "core/logs/log_readers.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

namespace {

void require_orderly(const std::vector<std::shared_ptr<History>>& runs) {
  for (const auto& run : runs) {
    const auto steps = run->steps_in(run->steps());
    require(!steps.empty(), "a run has steps");
    require(std::ranges::is_sorted(steps), "steps rise");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  holds_printed_steps(text);
  LogReader reader("fuzzed.log");
  LineSplitter lines;
  lines.add(text.substr(0, size / 2), reader);  // in two parts, as from a growing file
  lines.add(text.substr(size / 2), reader);
  if (lines.holds_part()) lines.finish(reader);
  reader.finish_step();
  require_orderly(reader.histories());
  for (const BadLine& bad : reader.bad().first()) require(!bad.reason.empty(), "what is bad has a reason");
  if (const auto dict = python_dict(text)) require(dict->size <= size && dict->json.starts_with('{'), "a dict");
  try {
    require_orderly(import_trainer_state(as_file(data, size)).runs);
  } catch (const std::runtime_error& refused) {
    require(*refused.what() != 0, "says why it is refused");
  }
  return 0;
}
