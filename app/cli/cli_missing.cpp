#include "app/cli/cli_missing.h"

#include <cstdio>

namespace moescope {

void print_missing(const RecordingReader& recording) {
  if (!recording.missing().empty()) std::fprintf(stderr, "moescope-cli: %s\n", recording.missing().c_str());
}

}  // namespace moescope
