// Keeps the program from overwriting one of its own inputs, another of its outputs, or a file that exists already.
#pragma once

#include <string>
#include <vector>

namespace moescope {

struct OutputFile {
  std::string option;                   // "--out", for messages; may be empty
  std::string path;                     // empty if not written
  bool folder = false;                  // files are added to a folder, which may exist
  bool stream = false;                  // may be a pipe, a terminal or "-"
  std::vector<std::string> files = {};  // names of all files of a folder that is written as a whole (whole_file.h)
};

// Call it before anything is written. Inputs are files or folders, with all files in them and the files to which links
// in them lead; empty paths are skipped. An existing file is replaced only with `overwrite`, an input never, whatever
// name or hard link it has. The folder of a file must be there. Throws std::runtime_error "OPTION PATH: why".
void guard_outputs(const std::vector<std::string>& inputs, const std::vector<OutputFile>& outputs, bool overwrite);

}  // namespace moescope
