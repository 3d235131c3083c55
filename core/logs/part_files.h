// A folder of logs that are parts of one run: a file for each rank, layer or step, whose names differ in numbers only.
// Two files of the same rank, layer and step are of several runs; then none is a part.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// Returns the number behind the word "rank", "layer" or "step" in the name of a file, "rank_3.jsonl"; -1: there is
// none.
int number_in_file_name(std::string_view name, const char* word);
// Returns the files of the folder, by number; empty if it holds no such files, or further files of their form.
std::vector<std::filesystem::path> part_files(const std::filesystem::path& folder);
// Returns the remark for one of such files, which is read alone; empty if there are no others.
std::string parts_beside(const std::filesystem::path& file);

// Reads the files as one run: loads of the same layer in files of ranks are added, unless all ranks have the same ones.
// Throws AmbiguousRouting if the ranks have other numbers of tokens: then their lists may be those of different
// experts, and options.routed.experts states which; std::runtime_error if a file cannot be read.
Imported import_part_files(const std::string& folder, const ImportOptions& options);

}  // namespace moescope
