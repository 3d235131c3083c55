// Keeps rules that the user states about names of a log in a mapping file, beside the log or for all logs (tag_map.h).
#pragma once

#include <string>

namespace moescope {

std::string tag_file_beside(const std::string& log);  // `log`: a file or a folder
std::string tag_file_for_all_logs();                  // empty: there is no home directory

// Writes `rules`, [[tag]] tables, before those of the file, so that they count first; its other lines stay. Makes the
// file and its folder if they are missing. Throws std::runtime_error with the path if it cannot be read or written, or
// if its text is no mapping.
void keep_tag_rules(const std::string& rules, const std::string& file);

}  // namespace moescope
