#include "app/cli/cli_missing.h"

#include <cstdio>

#include "core/io/text_escape.h"

namespace moescope {

void print_missing(const RecordingReader& recording) {
  if (!recording.missing().empty()) std::fprintf(stderr, "moescope-cli: %s\n", recording.missing().c_str());
}

void print_remarks(const OpenedRuns& opened) {
  for (const std::string& remark : opened.remarks) std::fprintf(stderr, "%s\n", printable(remark).c_str());
}

void print_notes(const OpenedRuns& opened) {
  print_remarks(opened);
  for (const SkippedLines& file : opened.skipped)
    std::fprintf(stderr, "%s: %s\n", printable(file.path).c_str(), printable(file.bad.summary()).c_str());
}

}  // namespace moescope
