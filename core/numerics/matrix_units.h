// The processor's units for products of BF16 matrices, added in FP32: AMX tiles of current Xeons, or AVX-512's
// VDPBF16PS of Zen 4, Cooper Lake and later. unit_gemm.h multiplies on them.
//
// A product of two BF16 numbers is exact in FP32, so exactly the quantized numbers are multiplied; only the order of
// the sum differs from sgemm's. Numbers below 2^-126 count as zero, so operands must not have any (quantize.h). The
// order depends on shapes and the unit alone, not on the number of threads.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

inline constexpr std::string_view kMatrixUnitChoices[] = {"auto", "amx", "avx512_bf16", "off"};
inline constexpr const char* kMatrixUnitsVariable = "MOESCOPE_MATRIX_UNITS";  // takes one of these values

enum class MatrixUnit { none, avx512_bf16, amx };
inline constexpr const char* kMatrixUnitNames[] = {"none", "avx512_bf16", "amx"};

// The unit that multiplies BF16 matrices. Decided at the first call: by choose_matrix_unit, else by
// kMatrixUnitsVariable, else the unit that is faster than sgemm: AMX, or VDPBF16PS on AMD's processors.
MatrixUnit matrix_unit();
inline bool has_matrix_unit() {
  return matrix_unit() != MatrixUnit::none;
}

// Chooses "auto", "amx", "avx512_bf16" or "off" for this process and its restarts; call it first in main(). Returns why
// the choice cannot be followed; empty if it can.
std::string choose_matrix_unit(std::string_view choice);

bool can_choose_matrix_unit(std::string_view choice);  // on this processor, whatever this process has chosen

// Of matrix_unit(): "own tiles amx"; "no matrix units".
const std::string& matrix_unit_text();

}  // namespace moescope
