// The kernels that compute matrix products on this processor. The bits of a run depend on config, seed, data and these
// kernels alone: other kernels add in another order. Recordings and checkpoints store their names, so that a user who
// repeats a training on another machine knows which result to expect.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moescope {

// Names of the kernels that computed a run, as stored in RunInfo::kernels and in checkpoints.
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

// RunInfo::kernels of a run with portable products (matrix_units.h). The number rises if their order of sums changes.
inline constexpr std::string_view kPortableKernels = "portable products 1";

// Returns "AMX" for "amx", "AVX-512 BF16" for "avx512_bf16"; unknown names are returned unchanged.
std::string matrix_unit_title(std::string_view name);

// Returns the text that says what multiplied the matrices of a run with these RunInfo::kernels: "AMX for BF16 and
// quantized operands, OpenBLAS 0.3.21 (SkylakeX) for FP32", "OpenBLAS 0.3.21 (Haswell)" or "portable products". Returns
// an empty text if the kernels are not recorded, as in logs of other programs.
std::string multiplied_by(std::string_view kernels);

const Kernels& kernels_here();
std::string kernels_text(bool portable);  // RunInfo::kernels of a run that is trained here
std::string openblas_core();  // the CPU core for which OpenBLAS's kernels in this process were written: "Haswell"
// Returns the core whose kernels OpenBLAS should use if those that it chose are older than this CPU's instruction sets
// (for an unknown CPU model OpenBLAS falls back to kernels of 2004); nullptr if OpenBLAS's choice fits.
const char* better_openblas_core();

struct KernelCheck {
  enum class Outcome { equal, not_recorded, other };
  Outcome outcome = Outcome::equal;
  std::string text;  // a sentence or two: the kernels that computed the run, and those of this machine
  // Settings that this CPU can run and that come nearer to the recorded kernels; empty if there are none.
  std::string core;   // OPENBLAS_CORETYPE
  std::string units;  // argument of choose_matrix_unit()
  bool helps() const { return !core.empty() || !units.empty(); }
};
// `recorded` is RunInfo::kernels or a checkpoint's Kernels::text(); empty if not known.
KernelCheck check_kernels(const std::string& recorded);

}  // namespace moescope
