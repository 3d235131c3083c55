// Statistics of TransformerEngine's debug features (nvidia-dlfw-inspect: LogTensorStats, LogFp8TensorStats,
// LogNvfp4TensorStats): files nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-R.log with lines
//
//   INFO - LAYER_TENSOR_STATISTIC          iteration=000002          value=4.3188
//
// TENSOR is activation, weight or gradient. LAYER is the name of a module: its first number is the layer, its last
// words name the product (fc1, fc2, qkv, proj; after "experts" or "shared_experts"). fc1 of a gated FFN holds w1 and w3
// together and is shown as w1, a fused qkv as wq. The suffix _columnwise of a statistic means the operand of the other
// GEMM: an activation in wgrad, a weight in dgrad, a gradient in wgrad.
//
// amax, underflows% and overflows% are read unchanged (underflows% is a share of all values and includes exact zeros).
// SQNR is (mean^2 + std^2) / mse if LogTensorStats also wrote mean and std of that iteration. Statistics for several
// formats become a run for each format. Of several ranks the largest amax is used, else the mean. Source:
// TransformerEngine, transformer_engine/debug/features/.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// `path`: a file, or a folder with such files or with nvdlfw_inspect_statistics_logs. Throws std::runtime_error if it
// cannot be read or has no statistics of quantization (lists its statistics).
Imported import_te_statistics(const std::string& path, const ImportOptions& options = {});

bool is_te_statistics_name(std::string_view file_name);  // nvdlfw_inspect_globalrank-0.log
bool is_te_statistics_folder(const std::filesystem::path& folder);

}  // namespace moescope
