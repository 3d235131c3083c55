// Keeps a command from overwriting one of its own inputs, another of its outputs, or a file that exists already.
#pragma once

#include <string>
#include <vector>

namespace moescope {

struct OutputFile {
  std::string option;   // "--out", for messages
  std::string path;     // empty if not written
  bool folder = false;  // files are added to a folder, which may exist
  bool stream = false;  // may be a pipe, a terminal or "-"
};

// Call it before anything is written. Inputs are files or folders; empty paths are skipped. An existing file is
// replaced only with `overwrite`, an input never. Throws std::runtime_error "OPTION PATH: why".
void guard_outputs(const std::vector<std::string>& inputs, const std::vector<OutputFile>& outputs, bool overwrite);

}  // namespace moescope
