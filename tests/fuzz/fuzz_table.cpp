// libFuzzer over tables as CSV: any bytes are read to their end or refused with a message, in little memory and time.
// The steps that were read are in order, and there are no more bad lines than lines. How to run: CONTRIBUTING.md.
#include <algorithm>
#include <stdexcept>

#include "core/logs/log_readers.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  ImportOptions options;
  options.array_budget_bytes = std::size_t{64} << 20;
  options.growing = size % 2 == 0;
  std::int64_t newest = -1;
  options.on_frame = [&](const std::shared_ptr<const TelemetryFrame>& frame) { newest = frame->step; };
  try {
    const Imported table = import_table(as_file(data, size), options);
    require(table.runs.size() >= 1, "a run, or it is refused");
    require(table.bad.count() <= table.lines, "no more bad lines than lines");
    for (const auto& run : table.runs) {
      require(run->count() > 0, "a run has steps");
      require(std::ranges::is_sorted(run->steps_in(run->steps())), "steps rise");
    }
    require(newest >= 0, "frames were handed on");
  } catch (const std::runtime_error& refused) {
    require(*refused.what() != 0, "says why it is refused");
  }
  return 0;
}
