// Finds the folder of a checkpoint: config.json and .safetensors, as transformers writes them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moescope {

bool is_checkpoint(const std::string& folder);  // true if it holds config.json and at least one .safetensors

// Returns the folders of checkpoints below `folder` in alphabetical order, at most `max_folders`, at most three levels
// below: models--OWNER--NAME/snapshots/COMMIT of a cache of Hugging Face. Links to folders are not followed.
std::vector<std::string> checkpoints_below(const std::string& folder, std::size_t max_folders);

// Returns the folder of the checkpoint that a path means: the path itself, the folder of a config.json, or the only
// checkpoint below it; in a cache of Hugging Face, the commit that refs/main names. Throws std::runtime_error
// "PATH: ..." if there is none, if there are several, or if the folder holds an adapter.
std::string checkpoint_folder(const std::string& path);

}  // namespace moescope
