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
  return "OpenBLAS " + openblas + ' ' + core + ", " + vectors + " loops" + (units.empty() ? "" : ", " + units);
}

std::optional<Kernels> parse_kernels(std::string_view text) {
  constexpr std::string_view kBegin = "OpenBLAS ", kEnd = " loops", kUnits = " loops, ";
  std::string_view units;
  if (const auto at = text.find(kUnits); at != text.npos) {
    units = text.substr(at + kUnits.size());
    text = text.substr(0, at + kEnd.size());
    const auto space = units.find(' '), last = units.rfind(' ');
    if (space == units.npos || space == last || !is_word(units.substr(0, space)) ||
        !is_word(units.substr(space + 1, last - space - 1)) || !is_word(units.substr(last + 1)))
      return {};
  }
  if (!text.starts_with(kBegin) || !text.ends_with(kEnd) || text.size() <= kBegin.size() + kEnd.size()) return {};
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - kEnd.size());
  const auto space = text.find(' '), comma = text.find(", ");
  if (space == text.npos || comma == text.npos || comma < space) return {};
  Kernels kernels{std::string(text.substr(0, space)), std::string(text.substr(space + 1, comma - space - 1)),
                  std::string(text.substr(comma + 2)), std::string(units)};
  if (!is_word(kernels.openblas) || !is_word(kernels.core) || !is_word(kernels.vectors)) return {};
  return kernels;
}

bool multiplied_by_openblas(std::string_view units) {
  return units.empty() || units == kNoMatrixUnits;
}

std::string matrix_unit_title(std::string_view name) {
  return name == "amx" ? "AMX" : name == "avx512_bf16" ? "AVX-512 BF16" : std::string(name);
}

std::string multiplied_by(std::string_view text) {
  const std::optional<Kernels> kernels = parse_kernels(text);
  if (!kernels) return {};
  const std::string openblas = "OpenBLAS " + kernels->openblas + " (" + kernels->core + ')';
  if (multiplied_by_openblas(kernels->units)) return openblas;
  const std::string_view units = kernels->units;
  const auto name = units.rfind(' ') + 1;
  const std::string_view by = units.substr(0, name - 1);
  return matrix_unit_title(units.substr(name)) + (by == kOwnTiles ? "" : " (" + std::string(by) + ')') +
         " for BF16 and quantized operands, " + openblas + " for FP32";
}

}  // namespace moescope
