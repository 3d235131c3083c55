// Visits the files below a folder without leaving it, because a folder of unknown origin may have links to any file of
// the one who reads it. Links within the folder are followed: the newest run of a training is often such a link.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

// `deepest`: number of folder levels below `folder`; 0: only its own files. Returns false if `take` did, which stops
// the walk. The order is arbitrary. A folder is entered once, so that loops of links end. Skips files and folders that
// cannot be read, and links that lead out of `folder`.
bool visit_files_below(const std::filesystem::path& folder, int deepest,
                       const std::function<bool(const std::filesystem::path&)>& take);
// Returns the folder's own files whose names are wanted, sorted.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, bool (*is_wanted)(std::string_view));
// Returns the names of all files and folders in a folder, at most 100,000, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder);
// Returns the links that visit_files_below() skips because they lead out of `folder`, sorted.
std::vector<std::filesystem::path> links_out_of(const std::filesystem::path& folder, int deepest);

// Returns an absolute path without "." and without a slash at the end, so that it ends in the name of its file or
// folder.
std::filesystem::path plain_path(const std::filesystem::path& path);

// True if `entry`, a path below `folder`, leads out of it by links. `folder` itself may be a link. A snapshot of
// Hugging Face's cache, MODEL/snapshots/REVISION, reaches to MODEL, because its files are links to MODEL/blobs. A path
// that does not exist leads nowhere.
bool leads_out_of(const std::filesystem::path& folder, const std::filesystem::path& entry);
// Throws std::runtime_error "FILE: is a link to TARGET, out of the folder FOLDER; ..." if `file` leads out of it.
void require_inside(const std::filesystem::path& folder, const std::filesystem::path& file);

}  // namespace moescope
