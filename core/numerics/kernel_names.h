// Names of the kernels that computed a run, as stored in RunInfo::kernels and in checkpoints.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moescope {

struct Kernels {
  std::string openblas;  // version: "0.3.21"
  std::string core;      // kernels of OpenBLAS as openblas_get_corename() names them: "SkylakeX"
  std::string vectors;   // this program's own loops: "16-lane-tiled"
  std::string units;     // units that multiply BF16, matrix_unit_text(): "own tiles amx", "no matrix units"

  std::string text() const;  // "OpenBLAS 0.3.21 SkylakeX, 16-lane-tiled loops, own tiles amx"
  bool operator==(const Kernels&) const = default;
};
std::optional<Kernels> parse_kernels(std::string_view text);  // parses the result of text(); nullopt if it is invalid

inline constexpr std::string_view kNoMatrixUnits = "no matrix units", kOwnTiles = "own tiles ";

// Returns "AMX" for "amx", "AVX-512 BF16" for "avx512_bf16"; unknown names are returned unchanged.
std::string matrix_unit_title(std::string_view name);

// Returns the text that says what multiplied the matrices of a run with these RunInfo::kernels: "AMX for BF16 and
// quantized operands, OpenBLAS 0.3.21 (SkylakeX) for FP32", or "OpenBLAS 0.3.21 (Haswell)". Returns an empty text if
// the kernels are not recorded, as in logs of other programs.
std::string multiplied_by(std::string_view kernels);

}  // namespace moescope
