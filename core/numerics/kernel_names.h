// Which kernels computed a run, as RunInfo::kernels and checkpoints name them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moescope {

struct Kernels {
  std::string openblas;  // version: "0.3.21"
  std::string core;      // of OpenBLAS's kernels, as openblas_get_corename() says: "SkylakeX"
  std::string vectors;   // of this program's own loops: "16-lane-tiled"
  std::string units;     // what multiplies BF16, matrix_unit_text(): "own tiles amx", "no matrix units"

  std::string text() const;  // "OpenBLAS 0.3.21 SkylakeX, 16-lane-tiled loops, own tiles amx"
  bool operator==(const Kernels&) const = default;
};
std::optional<Kernels> parse_kernels(std::string_view text);  // of text(); nothing: it is none

inline constexpr std::string_view kNoMatrixUnits = "no matrix units", kOwnTiles = "own tiles ";

// "AMX" for "amx", "AVX-512 BF16" for "avx512_bf16"; names that are not known as they are.
std::string matrix_unit_title(std::string_view name);

// What multiplied a run's matrices, by its RunInfo::kernels: "AMX for BF16 and quantized operands, OpenBLAS 0.3.21
// (SkylakeX) for FP32"; "OpenBLAS 0.3.21 (Haswell)". Empty: not recorded, as of other programs' logs.
std::string multiplied_by(std::string_view kernels);

}  // namespace moescope
