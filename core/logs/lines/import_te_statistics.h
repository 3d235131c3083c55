// Reads statistics of TransformerEngine's debug features (nvidia-dlfw-inspect); docs/logs.md, "TransformerEngine debug
// statistics", has the form. Source: TransformerEngine, transformer_engine/debug/features/.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// `path`: a file, or a folder with such files or with nvdlfw_inspect_statistics_logs. Throws std::runtime_error if it
// cannot be read or has no statistics of quantization (then with the names of those that it has).
Imported import_te_statistics(const std::string& path, const ImportOptions& options = {});

bool is_te_statistics_name(std::string_view file_name);  // nvdlfw_inspect_globalrank-0.log
bool is_te_statistics_folder(const std::filesystem::path& folder);

}  // namespace moescope
