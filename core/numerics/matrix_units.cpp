#include "core/numerics/matrix_units.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/numerics/operating_system.h"
#include "core/numerics/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if MOESCOPE_ON_LINUX
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace moescope {
namespace {

#if defined(__x86_64__)

bool cpu_has_avx512_bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// True if the processor has AMX and the operating system saves the tiles of an interrupted process. Linux does so for
// processes that request it, as this function does.
bool cpu_has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!cpu_has_avx512_bf16() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned kBf16Tiles = 1u << 22, kTiles = 1u << 24, kAllTileBits = kBf16Tiles | kTiles;
  unsigned enabled_state = 0, enabled_state_above = 0;
  __asm__("xgetbv" : "=a"(enabled_state), "=d"(enabled_state_above) : "c"(0));
  constexpr unsigned kTileConfigAndData = 3u << 17;
  if ((edx & kAllTileBits) != kAllTileBits || (enabled_state & kTileConfigAndData) != kTileConfigAndData) return false;
#if MOESCOPE_ON_LINUX
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

// Zen 4 multiplies BF16 twice as fast as FP32. On Intel's processors without AMX sgemm is faster.
bool vectors_beat_sgemm() {
  return __builtin_cpu_is("amd");
}

#else

bool cpu_has_avx512_bf16() {
  return false;
}
bool cpu_has_amx() {
  return false;
}
bool vectors_beat_sgemm() {
  return false;
}

#endif

MatrixUnit unit_of(std::string_view choice) {
  if (choice == "off") return MatrixUnit::none;
  if (choice != "avx512_bf16" && cpu_has_amx()) return MatrixUnit::amx;
  if (choice == "amx" || !cpu_has_avx512_bf16()) return MatrixUnit::none;
  return choice == "avx512_bf16" || vectors_beat_sgemm() ? MatrixUnit::avx512_bf16 : MatrixUnit::none;
}

// True if `unit` is what `choice` asks for. "auto" and "off" are always possible.
bool gives(std::string_view choice, MatrixUnit unit) {
  return choice == "auto" || choice == "off" || choice == kMatrixUnitNames[static_cast<int>(unit)];
}

thread_local bool portable_products = false;

}  // namespace

PortableProducts::PortableProducts(bool portable) : before_(std::exchange(portable_products, portable)) {}
PortableProducts::~PortableProducts() {
  portable_products = before_;
}
bool PortableProducts::in_use() {
  return portable_products;
}

MatrixUnit matrix_unit() {
  static const MatrixUnit unit = [] {
    const char* choice = std::getenv(kMatrixUnitsVariable);
    return unit_of(choice ? choice : "auto");
  }();
  return unit;
}

const std::string& matrix_unit_text() {
  static const std::string text = matrix_unit() != MatrixUnit::none
                                      ? std::string(kOwnTiles) + kMatrixUnitNames[static_cast<int>(matrix_unit())]
                                      : std::string(kNoMatrixUnits);
  return text;
}

bool can_choose_matrix_unit(std::string_view choice) {
  return std::ranges::find(kMatrixUnitChoices, choice) != std::end(kMatrixUnitChoices) &&
         gives(choice, unit_of(choice));
}

std::string choose_matrix_unit(std::string_view choice) {
  if (std::ranges::find(kMatrixUnitChoices, choice) == std::end(kMatrixUnitChoices))
    return "matrix unit '" + std::string(choice) + "' is not known; allowed: auto, amx, avx512_bf16, off";
  setenv(kMatrixUnitsVariable, std::string(choice).c_str(), 1);
  return gives(choice, matrix_unit()) ? "" : "this processor has no " + std::string(choice) + " units";
}

}  // namespace moescope
