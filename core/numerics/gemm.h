// General matrix products by OpenBLAS, each on the calling thread alone.
#pragma once

#include <string>

namespace moescope {

enum class Trans { no, yes };

// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C, all row-major; ld*: elements from stored row to stored row.
void gemm(Trans ta, Trans tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
          float beta, float* c, int ldc);
void gemm(Trans ta, Trans tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb,
          double beta, double* c, int ldc);

// OpenBLAS picks kernels by CPU model and falls back to those of 2004 for models it does not know. Where the chosen
// kernels are older than the CPU's instruction sets, restarts this program once with OPENBLAS_CORETYPE set (a type
// that the user set is left alone). Call first in main(). Returns a sentence for the log and the about box.
std::string ensure_fast_openblas(char** argv);

}  // namespace moescope
