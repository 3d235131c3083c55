// Statistics that TransformerEngine's debug features write (nvidia-dlfw-inspect: LogTensorStats, LogFp8TensorStats,
// LogNvfp4TensorStats): files nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-R.log of lines
//
//   INFO - LAYER_TENSOR_STATISTIC          iteration=000002          value=4.3188
//
// TENSOR is activation, weight or gradient. LAYER is a module's name: its first number is the layer, its last words say
// which product it is (fc1, fc2, qkv, proj; "experts" and "shared_experts" before them). fc1 of a gated FFN holds w1
// and w3 together and is shown as w1, a fused qkv as wq. With _columnwise behind the statistic it is the operand of the
// other GEMM: an activation's in wgrad, a weight's in dgrad, a gradient's in wgrad.
//
// amax, underflows% and overflows% are taken as they are (underflows% counts among all values, and exact zeros are
// among them); SQNR is (mean^2 + std^2) / mse where LogTensorStats wrote mean and std of that iteration, too. What was
// logged for several formats becomes a run for each. Files of several ranks: the largest amax, else the mean.
// Source: TransformerEngine, transformer_engine/debug/features/.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// `path`: a file, or a folder that holds such files or nvdlfw_inspect_statistics_logs. Throws std::runtime_error:
// cannot be read; holds no statistics of quantization (with the statistics there are).
Imported import_te_statistics(const std::string& path, const ImportOptions& options = {});

bool is_te_statistics_name(std::string_view file_name);  // nvdlfw_inspect_globalrank-0.log
bool is_te_statistics_folder(const std::filesystem::path& folder);

// Reads the lines of a file, for the fuzzer; true if anything was understood.
bool read_te_statistics_bytes(std::string_view bytes, BadLines& bad);

}  // namespace moescope
