#include "core/numerics/gemm.h"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace moescope {
namespace {

CBLAS_TRANSPOSE flag(Trans trans) {
  return trans == Trans::yes ? CblasTrans : CblasNoTrans;
}

// Outside a parallel loop OpenBLAS would start threads of its own, and the result would depend on their number.
const bool single_threaded = (openblas_set_num_threads(1), true);

// libgomp, of which OpenBLAS asks the number at each call, keeps it per calling thread: each has to say it for itself.
void stay_on_this_thread() {
  thread_local const bool said = (openblas_set_num_threads(1), true);
  (void)said;
}

enum KernelAge { kBaseline, kAvx2, kAvx512 };

KernelAge age_of_kernels(std::string_view core) {
  for (std::string_view name : {"SkylakeX", "Cooperlake", "Sapphirerapids", "SapphireRapids"})
    if (core == name) return kAvx512;
  for (std::string_view name : {"Haswell", "Zen"})
    if (core == name) return kAvx2;
  return kBaseline;
}

KernelAge age_of_cpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  return avx512 ? kAvx512 : avx2 ? kAvx2 : kBaseline;
#else
  return kBaseline;
#endif
}

// The program itself, under its own name for whoever lists processes.
std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
}

}  // namespace

void gemm(Trans ta, Trans tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
          float beta, float* c, int ldc) {
  if (m == 0 || n == 0) return;
  stay_on_this_thread();
  cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(Trans ta, Trans tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb,
          double beta, double* c, int ldc) {
  if (m == 0 || n == 0) return;
  stay_on_this_thread();
  cblas_dgemm(CblasRowMajor, flag(ta), flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

std::string ensure_fast_openblas(char** argv) {
  (void)single_threaded;
  constexpr const char* kCoreType = "OPENBLAS_CORETYPE";
  constexpr const char* kRestartedFrom = "MOESCOPE_RESTARTED_FROM";  // also keeps the restart from happening twice
  const std::string core = openblas_get_corename();
  if (const char* slow_core = std::getenv(kRestartedFrom))
    return "OpenBLAS chose its slow " + std::string(slow_core) + " kernels; restarted with its " + core + " kernels.";
  if (std::getenv(kCoreType)) return "OpenBLAS runs its " + core + " kernels, as OPENBLAS_CORETYPE asks.";
  const KernelAge cpu = age_of_cpu();
  if (age_of_kernels(core) >= cpu) return "OpenBLAS chose its " + core + " kernels, which fit this CPU.";
  const char* better = cpu == kAvx512 ? "SkylakeX" : "Haswell";
  setenv(kCoreType, better, 1);
  setenv(kRestartedFrom, core.c_str(), 1);
  execv(own_path().c_str(), argv);
  unsetenv(kCoreType);
  unsetenv(kRestartedFrom);
  return "OpenBLAS chose its slow " + core + " kernels; start with OPENBLAS_CORETYPE=" + better + " for speed.";
}

}  // namespace moescope
