// Visits the files below a folder in no particular order. Follows links to folders, because the newest run of a
// training is often a link.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace moescope {

// `deepest`: number of folder levels below `folder`; 0: only its own files. `take` returns false to stop. A folder is
// entered once, so that loops of links end. Skips files and folders that cannot be read.
void each_file_below(const std::filesystem::path& folder, int deepest,
                     const std::function<bool(const std::filesystem::path&)>& take);
// Returns the folder's own files whose names are wanted, sorted.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, bool (*is_wanted)(std::string_view));

}  // namespace moescope
