#include "core/numerics/gemm.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cassert>

namespace moescope {
namespace {

CBLAS_TRANSPOSE flag(Trans trans) {
  return trans == Trans::yes ? CblasTrans : CblasNoTrans;
}

// Outside of a parallel loop OpenBLAS would start threads of its own, and the result would depend on their number.
// OpenBLAS asks OpenMP for the number at each call. OpenMP keeps this number separately for each thread and for each
// parallel region of one thread, so it is checked at every call.
void keep_openblas_on_this_thread() {
  static const bool limited_to_one_thread =
      (openblas_set_num_threads(1), true);  // for an OpenBLAS that does not use OpenMP
  (void)limited_to_one_thread;
  if (!omp_in_parallel() && omp_get_max_threads() != 1) omp_set_num_threads(1);
}

// Converts to OpenBLAS's index type. OpenBLAS refuses a stride of 0, which a matrix without columns has.
blasint blas(Index n) {
  return n;
}
blasint leading(Index stride) {
  return std::max<Index>(stride, 1);
}

template <class T>
[[maybe_unused]] bool shapes_agree(Trans ta, Trans tb, const Matrix<const T>& a, const Matrix<const T>& b,
                                   const Matrix<T>& c) {
  const auto rows = [](Trans trans, const Matrix<const T>& m) { return trans == Trans::yes ? m.cols : m.rows; };
  return rows(ta, a) == c.rows && contracted(tb, b) == c.cols && contracted(ta, a) == rows(tb, b);
}

}  // namespace

void gemm(Trans ta, Trans tb, float alpha, ConstMatrix<float> a, ConstMatrix<float> b, float beta, Matrix<float> c) {
  assert(shapes_agree(ta, tb, a, b, c));
  if (c.empty()) return;
  keep_openblas_on_this_thread();
  cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), blas(c.rows), blas(c.cols), blas(contracted(ta, a)), alpha, a.data,
              leading(a.stride), b.data, leading(b.stride), beta, c.data, leading(c.stride));
}

void gemm(Trans ta, Trans tb, double alpha, ConstMatrix<double> a, ConstMatrix<double> b, double beta,
          Matrix<double> c) {
  assert(shapes_agree(ta, tb, a, b, c));
  if (c.empty()) return;
  keep_openblas_on_this_thread();
  cblas_dgemm(CblasRowMajor, flag(ta), flag(tb), blas(c.rows), blas(c.cols), blas(contracted(ta, a)), alpha, a.data,
              leading(a.stride), b.data, leading(b.stride), beta, c.data, leading(c.stride));
}

}  // namespace moescope
