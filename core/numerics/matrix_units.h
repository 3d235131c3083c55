// The processor's units for products of BF16 matrices, added in FP32: AMX tiles of current Xeons, or AVX-512's
// VDPBF16PS of Zen 4, Cooper Lake and later. unit_gemm.h multiplies on them.
//
// A product of two BF16 numbers is exact in FP32, so what is multiplied is exactly what was quantized; only the order
// of the sum is another than sgemm's. Numbers below 2^-126 count as zero: operands must have none (quantize.h).
// The order follows from shapes and the unit alone, never from the number of threads.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

inline constexpr std::string_view kMatrixUnitChoices[] = {"auto", "amx", "avx512_bf16", "off"};
inline constexpr const char* kMatrixUnitsVariable = "MOESCOPE_MATRIX_UNITS";  // of the environment: one of these

enum class MatrixUnit { none, avx512_bf16, amx };
inline constexpr const char* kMatrixUnitNames[] = {"none", "avx512_bf16", "amx"};

// What products of BF16 matrices run on. Decided at the first call, by choose_matrix_unit or, without it, by
// kMatrixUnitsVariable in the environment; else what is faster than sgemm: AMX, or VDPBF16PS of AMD's processors.
MatrixUnit matrix_unit();
inline bool has_matrix_unit() {
  return matrix_unit() != MatrixUnit::none;
}

// "auto", "amx", "avx512_bf16" or "off", for this process and those that it restarts; call first in main(). Returns
// what is wrong with the choice; empty: it is as asked.
std::string choose_matrix_unit(std::string_view choice);

bool can_choose_matrix_unit(std::string_view choice);  // on this processor, whatever this process has chosen

// Of matrix_unit(): "own tiles amx"; "no matrix units".
const std::string& matrix_unit_text();

}  // namespace moescope
