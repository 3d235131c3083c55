// General matrix products by OpenBLAS, each on the calling thread alone.
#pragma once

namespace moescope {

enum class Trans { no, yes };

// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C, all row-major; ld*: elements from stored row to stored row.
void gemm(Trans ta, Trans tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
          float beta, float* c, int ldc);
void gemm(Trans ta, Trans tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb,
          double beta, double* c, int ldc);

}  // namespace moescope
