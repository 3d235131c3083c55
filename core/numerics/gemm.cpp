#include "core/numerics/gemm.h"

#include <cblas.h>

namespace moescope {
namespace {

CBLAS_TRANSPOSE flag(Trans trans) {
  return trans == Trans::yes ? CblasTrans : CblasNoTrans;
}

// Outside a parallel loop OpenBLAS would start threads of its own, and the result would depend on their number.
[[maybe_unused]] const bool single_threaded = (openblas_set_num_threads(1), true);

// libgomp, of which OpenBLAS asks the number at each call, keeps it per calling thread: each has to say it for itself.
void keep_openblas_on_this_thread() {
  thread_local const bool said = (openblas_set_num_threads(1), true);
  (void)said;
}

}  // namespace

void gemm(Trans ta, Trans tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
          float beta, float* c, int ldc) {
  if (m == 0 || n == 0) return;
  keep_openblas_on_this_thread();
  cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(Trans ta, Trans tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb,
          double beta, double* c, int ldc) {
  if (m == 0 || n == 0) return;
  keep_openblas_on_this_thread();
  cblas_dgemm(CblasRowMajor, flag(ta), flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace moescope
