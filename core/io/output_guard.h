// Keeps a command from destroying a file: one of its own inputs, another of its outputs, or a file that is there
// already.
#pragma once

#include <string>
#include <vector>

namespace moescope {

struct OutputFile {
  std::string option;   // "--out", for messages
  std::string path;     // empty: not written
  bool folder = false;  // files are added to a folder, which may be there
  bool stream = false;  // may be a pipe, a terminal or "-"
};

// To be called before anything is written. Inputs are files or folders; empty ones are passed over. A file that is
// there is replaced only with `overwrite`, an input never. Throws std::runtime_error "OPTION PATH: why".
void guard_outputs(const std::vector<std::string>& inputs, const std::vector<OutputFile>& outputs, bool overwrite);

}  // namespace moescope
