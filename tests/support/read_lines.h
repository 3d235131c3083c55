// A log whose lines are read at once.
#pragma once

#include <initializer_list>
#include <string>

#include "core/logs/lines/import_jsonl.h"

namespace moescope {

struct ReadLines : LogReader {
  explicit ReadLines(std::initializer_list<std::string> lines) : LogReader("here.jsonl") {
    for (const std::string& line : lines) read_line(line);
    finish_step();
  }
};

}  // namespace moescope
