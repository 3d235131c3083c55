// Reads the sample logs in assets/samples.
#pragma once

#include <string>

#include "core/logs/lines/import_jsonl.h"

namespace moescope {

inline HistoryPtr sample_log(const char* name) {
  return import_jsonl(std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/" + name + ".jsonl").runs.front();
}

}  // namespace moescope
