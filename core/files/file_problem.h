// A problem in a text: its place, and what is allowed.
#pragma once

#include <string>

namespace moescope {

struct FileProblem {
  std::string file;  // empty if the text did not come from a file
  int line = 0;      // from 1; 0 if unknown
  std::string key;
  std::string message;       // "top_k is 20, but there are 16 experts: choose 1 to 16"
  std::string text() const;  // "run.toml:12: router.top_k: ..."
};

}  // namespace moescope
