#include "core/numerics/kernel_names.h"

#include <algorithm>

namespace moescope {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 40 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' ||
           c == '_';
  });
}

}  // namespace

std::string Kernels::text() const {
  return "OpenBLAS " + openblas + ' ' + core + ", " + vectors + " loops, " + units;
}

std::optional<Kernels> parse_kernels(std::string_view text) {
  constexpr std::string_view kBegin = "OpenBLAS ", kLoops = " loops, ";
  const auto comma = text.find(", "), loops = text.find(kLoops);
  if (!text.starts_with(kBegin) || loops == text.npos || comma >= loops) return {};
  const std::string_view openblas = text.substr(kBegin.size(), comma - kBegin.size());
  const auto space = openblas.find(' ');
  if (space == openblas.npos) return {};
  Kernels kernels{std::string(openblas.substr(0, space)), std::string(openblas.substr(space + 1)),
                  std::string(text.substr(comma + 2, loops - comma - 2)),
                  std::string(text.substr(loops + kLoops.size()))};
  const bool known_units = kernels.units == kNoMatrixUnits ||
                           (kernels.units.starts_with(kOwnTiles) && is_word(kernels.units.substr(kOwnTiles.size())));
  if (!is_word(kernels.openblas) || !is_word(kernels.core) || !is_word(kernels.vectors) || !known_units) return {};
  return kernels;
}

std::string matrix_unit_title(std::string_view name) {
  return name == "amx" ? "AMX" : name == "avx512_bf16" ? "AVX-512 BF16" : std::string(name);
}

std::string multiplied_by(std::string_view text) {
  const std::optional<Kernels> kernels = parse_kernels(text);
  if (!kernels) return {};
  const std::string openblas = "OpenBLAS " + kernels->openblas + " (" + kernels->core + ')';
  if (kernels->units == kNoMatrixUnits) return openblas;
  return matrix_unit_title(kernels->units.substr(kOwnTiles.size())) + " for BF16 and quantized operands, " + openblas +
         " for FP32";
}

}  // namespace moescope
