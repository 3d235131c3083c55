// Reads statistics of TransformerEngine's debug features (nvidia-dlfw-inspect: LogTensorStats, LogFp8TensorStats,
// LogNvfp4TensorStats) from files nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-R.log with lines
//
//   INFO - LAYER_TENSOR_STATISTIC          iteration=000002          value=4.3188
//
// TENSOR is activation, weight or gradient. LAYER is the name of a module. Its first number is the layer, and its last
// words name the GEMM (fc1, fc2, qkv, proj; after "experts" or "shared_experts"). fc1 of a gated FFN, which holds w1
// and w3, is shown as w1, and a fused qkv as wq. A statistic with the suffix _columnwise belongs to the operand of the
// other GEMM: an activation in wgrad, a weight in dgrad, a gradient in wgrad.
//
// underflows% is a share of all values and includes exact zeros. SQNR is (mean^2 + std^2) / mse if LogTensorStats also
// wrote mean and std of that iteration. Statistics for several formats become a run for each format. If there are
// several ranks, amax is the largest of theirs, and every other statistic is their mean. Source: TransformerEngine,
// transformer_engine/debug/features/.
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
