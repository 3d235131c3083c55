// Files that are read with a log although the user does not name them.
#pragma once

#include <string>
#include <vector>

namespace moescope {

// Returns the other parts of the W&B run of a file, and the mapping beside a file of events. Throws like file_kind().
std::vector<std::string> files_beside(const std::string& path);

}  // namespace moescope
