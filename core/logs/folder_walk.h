// The files below a folder, whose order is not told. Links to folders are followed: a training's newest run is often
// one.
#pragma once

#include <filesystem>
#include <functional>

namespace moescope {

// `deepest`: how many folders below `folder` are looked into; 0: only its own files. `take` returns false to stop.
// A folder is entered once, so that loops of links end; what cannot be read is passed over.
void each_file_below(const std::filesystem::path& folder, int deepest,
                     const std::function<bool(const std::filesystem::path&)>& take);

}  // namespace moescope
