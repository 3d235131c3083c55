#include "core/numerics/processor.h"

#include <cblas.h>

#include <algorithm>

#include "core/numerics/matrix_units.h"

namespace moescope {
namespace {

enum KernelAge { kBaseline, kAvx, kAvx2, kAvx512, kAvx512Bf16, kUnknown };

struct NamedCore {
  std::string_view name;
  KernelAge age;
};
// OpenBLAS's cores of x86-64 whose kernels run on every CPU with their instruction set. AMD's cores of 2011 to 2015 are
// left out, because they need an instruction set that later CPUs lack.
constexpr NamedCore kCores[] = {{"Prescott", kBaseline}, {"Sandybridge", kAvx}, {"Haswell", kAvx2},
                                {"Zen", kAvx2},          {"SkylakeX", kAvx512}, {"Cooperlake", kAvx512Bf16}};

KernelAge needs(std::string_view core) {
  const auto known = std::ranges::find(kCores, core, &NamedCore::name);
  return known == std::end(kCores) ? kUnknown : known->age;
}

KernelAge age_of_kernels(std::string_view core) {
  if (core == "Sapphirerapids" || core == "SapphireRapids") return kAvx512Bf16;
  return needs(core) == kUnknown ? kBaseline : needs(core);
}

KernelAge age_of_cpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx512) return __builtin_cpu_supports("avx512bf16") ? kAvx512Bf16 : kAvx512;
  if (avx2) return kAvx2;
  if (__builtin_cpu_supports("avx")) return kAvx;
  return kBaseline;
#else
  return kUnknown;
#endif
}

bool cpu_can_run(std::string_view core) {
  const KernelAge cpu = age_of_cpu();
  return cpu != kUnknown && needs(core) <= cpu;
}

// The loops of kernels/lanes.h add over sixteen lanes on every processor, and BF16 is multiplied in the tiles of
// tile_products.h.
constexpr std::string_view kLoops = "16-lane-tiled";

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
std::string openblas_version() {
  const std::string config = openblas_get_config();
  const auto begin = config.find(' ');
  if (begin == std::string::npos) return "unknown";
  return config.substr(begin + 1, config.find(' ', begin + 1) - begin - 1);
}

// Returns the argument of choose_matrix_unit() that gives the units `recorded` on this processor; empty if no argument
// does, or if these units are in use already.
std::string units_for(const std::string& recorded, const std::string& current) {
  if (recorded == current) return "";
  if (recorded == kNoMatrixUnits) return "off";
  const std::string name = recorded.substr(std::min(recorded.size(), kOwnTiles.size()));
  return recorded.starts_with(kOwnTiles) && can_choose_matrix_unit(name) ? name : "";
}

bool is_portable(std::string_view kernels) {
  return kernels.starts_with("portable products ");
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 40 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' ||
           c == '_';
  });
}

}  // namespace

const Kernels& kernels_here() {
  static const Kernels current{openblas_version(), openblas_core(), std::string(kLoops), matrix_unit_text()};
  return current;
}

std::string kernels_text(bool portable) {
  return portable ? std::string(kPortableKernels) : kernels_here().text();
}

std::string openblas_core() {
  return openblas_get_corename();
}

const char* better_openblas_core() {
  const KernelAge cpu = age_of_cpu();
  const char* best = cpu == kAvx2 ? "Haswell" : nullptr;
  if (cpu != kUnknown && cpu >= kAvx512) best = "SkylakeX";
  return best && age_of_kernels(openblas_core()) < needs(best) ? best : nullptr;
}

KernelCheck check_kernels(const std::string& recorded) {
  using Outcome = KernelCheck::Outcome;
  if (recorded == kPortableKernels)
    return {Outcome::equal, "Computed by portable products, which give the same bits on every processor.", "", ""};
  if (is_portable(recorded))
    return {Outcome::other,
            "Computed by " + recorded + "; this version of the program has " + std::string(kPortableKernels) +
                ", which add in another order, so the bits may differ from the first step on.",
            "", ""};
  const Kernels& current = kernels_here();
  const std::optional<Kernels> computed_by = parse_kernels(recorded);
  if (!computed_by)
    return {Outcome::not_recorded,
            "Which kernels computed it is not recorded; here are " + current.text() +
                ". On another kind of CPU the bits may differ.",
            "", ""};
  if (*computed_by == current)
    return {Outcome::equal, "Computed by the kernels that are here, too: " + current.text() + '.', "", ""};
  KernelCheck check{Outcome::other,
                    "Computed by " + computed_by->text() + "; here are " + current.text() +
                        ". Other kernels add in another order, so the bits may differ from the first step on.",
                    "", units_for(computed_by->units, current.units)};
  if (computed_by->units != current.units && check.units.empty())
    check.text += " This CPU cannot run " + computed_by->units + '.';
  if (computed_by->core == current.core) return check;
  if (cpu_can_run(computed_by->core)) {
    check.core = computed_by->core;
  } else {
    check.units.clear();  // the matrix units alone do not reproduce the bits
    check.text += " This CPU cannot run OpenBLAS's " + computed_by->core + " kernels.";
  }
  return check;
}

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
  if (name == "amx") return "AMX";
  if (name == "avx512_bf16") return "AVX-512 BF16";
  return std::string(name);
}

std::string multiplied_by(std::string_view text) {
  if (is_portable(text)) return "portable products";
  const std::optional<Kernels> kernels = parse_kernels(text);
  if (!kernels) return {};
  const std::string openblas = "OpenBLAS " + kernels->openblas + " (" + kernels->core + ')';
  if (kernels->units == kNoMatrixUnits) return openblas;
  return matrix_unit_title(kernels->units.substr(kOwnTiles.size())) + " for BF16 and quantized operands, " + openblas +
         " for FP32";
}

}  // namespace moescope
