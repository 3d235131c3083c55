// The processor's units for products of BF16 matrices, added in FP32: AMX tiles of current Xeons, or AVX-512's
// VDPBF16PS of Zen 4, Cooper Lake and later. gemm.h multiplies on them.
//
// A product of two BF16 numbers is exact in FP32, so results differ from sgemm's only by the order of the sums. This
// order depends on the shapes and the unit alone, not on the number of threads. The units treat numbers below 2^-126 as
// zero, so operands must not contain any (quantize.h).
#pragma once

#include <string>
#include <string_view>

namespace moescope {

inline constexpr std::string_view kMatrixUnitChoices[] = {"auto", "amx", "avx512_bf16", "off"};
inline constexpr const char* kMatrixUnitsVariable = "MOESCOPE_MATRIX_UNITS";  // takes one of these values

enum class MatrixUnit { none, avx512_bf16, amx };
inline constexpr const char* kMatrixUnitNames[] = {"none", "avx512_bf16", "amx"};

// While an object of this class exists, the products of its thread and of the parallel loops that the thread starts are
// computed in one order on every processor (kernels/ordered_product.h) if `portable`; otherwise, and without
// such an object, by OpenBLAS and matrix units.
class PortableProducts {
 public:
  explicit PortableProducts(bool portable);
  ~PortableProducts();
  PortableProducts(const PortableProducts&) = delete;
  static bool in_use();  // by the calling thread

 private:
  bool before_;
};

// Returns the unit that multiplies BF16 matrices. The first call decides it: by choose_matrix_unit(), else by
// kMatrixUnitsVariable. Without either it is the unit that is faster than sgemm: AMX, or VDPBF16PS on AMD's processors.
MatrixUnit matrix_unit();
inline bool has_matrix_unit() {
  return matrix_unit() != MatrixUnit::none && !PortableProducts::in_use();
}

// Chooses "auto", "amx", "avx512_bf16" or "off" for this process and its restarts; call it first in main(). Returns why
// the choice cannot be followed; empty if it can.
std::string choose_matrix_unit(std::string_view choice);

// True if this processor supports the choice, whatever this process has chosen.
bool can_choose_matrix_unit(std::string_view choice);

// Returns the text for matrix_unit() in Kernels::units: "own tiles amx" or "no matrix units".
const std::string& matrix_unit_text();

}  // namespace moescope
