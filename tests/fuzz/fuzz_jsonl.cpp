// libFuzzer over the reader of JSON lines: any bytes are read to their end, line by line. A line is a step, settings or
// counted as bad. The last step of each run can be written and read again. How to run: CONTRIBUTING.md.
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/log_exports.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const WithinLimits limits;
  LogReader reader("fuzzed.jsonl");
  LineSplitter lines;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  lines.add(text.substr(0, size / 2), reader);  // in two parts, as from a growing file
  lines.add(text.substr(size / 2), reader);
  if (lines.holds_part()) lines.finish(reader);
  reader.finish_step();
  require(reader.bad().count() <= reader.lines(), "no more bad lines than lines");
  LogReader reread("again.jsonl");
  for (const auto& history : reader.histories()) {
    reread.read_line(to_json_line(history->info()));
    const auto frame = history->frame_at(history->steps().last);
    if (!frame) continue;
    reread.read_line(to_json_line(*frame));
    history->utilisation(frame->routers.front().layer, history->steps(), 4);
  }
  reread.finish_step();
  if (reread.bad().count() > 0) std::fprintf(stderr, "%s", reread.bad().text().c_str());
  require(reread.bad().count() == 0, "what was read can be written and read again");
  return 0;
}
