#include "core/numerics/kernels.h"

#include <cblas.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/numerics/matrix_units.h"

namespace moescope {
namespace {

constexpr const char* kCoreType = "OPENBLAS_CORETYPE";
// Looks of a waiting thread before it sleeps. With libgomp's 300,000 a step of `nano` in the window took 20 times as
// long on two cores beside other programs, since a thread that spins keeps its core from the one that it waits for;
// with 500 a step of S on 16 idle cores took 1.1 times as long.
constexpr const char *kSpinCount = "GOMP_SPINCOUNT", *kShortSpin = "5000";
// Both say that a restart was made, so that it does not happen twice.
constexpr const char* kRestartedFrom = "MOESCOPE_RESTARTED_FROM";  // the slow core that OpenBLAS chose
constexpr const char* kRestartedFor = "MOESCOPE_RESTARTED_FOR";    // core and matrix units of a recording

char** own_arguments = nullptr;  // main()'s

enum KernelAge { kBaseline, kAvx, kAvx2, kAvx512, kAvx512Bf16, kUnknown };

struct NamedCore {
  std::string_view name;
  KernelAge age;
};
// Those of x86-64 that run wherever their instruction set is; AMD's of 2011 to 2015 need one that later CPUs lack.
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
  return avx2 ? kAvx2 : __builtin_cpu_supports("avx") ? kAvx : kBaseline;
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

// The program itself, under its own name for whoever lists processes.
std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
}

// A variable of the environment for the program that is started in place of this one.
class VariableForRestart {
 public:
  VariableForRestart(const char* name, const std::string& value) : name_(name) {
    if (value.empty()) return;
    set_ = true;
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~VariableForRestart() {
    if (set_) before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_);
  }
  VariableForRestart(const VariableForRestart&) = delete;

 private:
  const char* name_;
  bool set_ = false;
  std::optional<std::string> before_;
};

// Returns where it cannot be done. What is empty stays as it is.
void restart(const std::string& core, const std::string& units, const char* mark, const std::string& marked) {
  const VariableForRestart core_type(kCoreType, core), matrix_units(kMatrixUnitsVariable, units),
      restarted(mark, marked);
  execv(own_path().c_str(), own_arguments);
}

bool set_by_user(const char* variable) {
  return std::getenv(variable) && !std::getenv(kRestartedFrom) && !std::getenv(kRestartedFor);
}

// The choice of matrix units that gives `then` here; empty: none does, or it is made.
std::string units_for(const std::string& then, const std::string& here) {
  if (then == here) return "";
  if (then == kNoMatrixUnits) return "off";
  for (const MatrixUnitChoice& choice : matrix_unit_choices())
    if (choice.name != "auto" && choice.lacks.empty() && then == matrix_unit_text(choice.unit))
      return std::string(choice.name);
  return "";
}

}  // namespace

const Kernels& kernels_here() {
  static const Kernels here{openblas_version(), openblas_get_corename(), std::string(kLoops), matrix_unit_text()};
  return here;
}

KernelCheck check_kernels(const std::string& recorded) {
  using Outcome = KernelCheck::Outcome;
  const Kernels& here = kernels_here();
  const std::optional<Kernels> then = parse_kernels(recorded);
  if (!then)
    return {Outcome::not_recorded,
            "Which kernels computed it is not recorded; here are " + here.text() +
                ". On another kind of CPU the bits may differ.",
            "", ""};
  if (*then == here) return {Outcome::same, "Computed by the kernels that are here, too: " + here.text() + '.', "", ""};
  KernelCheck check{Outcome::other,
                    "Computed by " + then->text() + "; here are " + here.text() +
                        ". Other kernels add in another order, so the bits may differ from the first step on.",
                    "", units_for(then->units, here.units)};
  if (then->units != here.units && check.units.empty()) check.text += " This CPU cannot run " + then->units + '.';
  if (then->core == here.core) return check;
  if (cpu_can_run(then->core)) {
    check.core = then->core;
  } else {
    check.units.clear();  // they alone bring no bits back
    check.text += " This CPU cannot run OpenBLAS's " + then->core + " kernels.";
  }
  return check;
}

KernelCheck use_recorded_kernels(const std::string& recorded) {
  KernelCheck check = check_kernels(recorded);
  if (!check.helps()) return check;
  for (const char* variable : {kCoreType, kMatrixUnitsVariable})
    if (set_by_user(variable)) {
      check.text += std::string(" ") + variable + '=' + std::getenv(variable) + " is kept, as you set it.";
      return check;
    }
  if (std::getenv(kRestartedFor))  // which left the cores that this OpenBLAS was built without
    check.text += " This OpenBLAS has no " + check.core + " kernels.";
  else if (own_arguments)
    restart(check.core, check.units, kRestartedFor, check.core + ' ' + check.units);
  return check;
}

std::string ensure_fast_openblas(char** argv) {
  own_arguments = argv;
  const bool spins_long = !std::getenv(kSpinCount) && !std::getenv("OMP_WAIT_POLICY");
  if (spins_long) setenv(kSpinCount, kShortSpin, 1);
  const std::string core = openblas_get_corename();
  if (const char* wanted = std::getenv(kRestartedFor); wanted && std::string_view(wanted).starts_with(core + ' '))
    return "OpenBLAS runs its " + core + " kernels, as the recording asks that is trained again.";
  if (const char* slow_core = std::getenv(kRestartedFrom))
    return "OpenBLAS chose its slow " + std::string(slow_core) + " kernels; restarted with its " + core + " kernels.";
  const KernelAge cpu = age_of_cpu();
  const char* better = cpu == kUnknown ? nullptr : cpu >= kAvx512 ? "SkylakeX" : cpu == kAvx2 ? "Haswell" : nullptr;
  const bool asked = std::getenv(kCoreType);
  if (asked || !better || age_of_kernels(core) >= needs(better)) {
    if (spins_long) execv(own_path().c_str(), own_arguments);
    return "OpenBLAS " + (asked ? "runs its " + core + " kernels, as OPENBLAS_CORETYPE asks."
                                : "chose its " + core + " kernels, which fit this CPU.");
  }
  restart(better, "", kRestartedFrom, core);
  return "OpenBLAS chose its slow " + core + " kernels; start with OPENBLAS_CORETYPE=" + better + " for speed.";
}

}  // namespace moescope
