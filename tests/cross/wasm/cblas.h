// Stands in for OpenBLAS, which a training with portable products does not call.
#pragma once
using blasint = int;
enum CBLAS_ORDER { CblasRowMajor = 101, CblasColMajor = 102 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };
template <class... Arguments>
void cblas_sgemm(Arguments...) {
  __builtin_trap();
}
template <class... Arguments>
void cblas_dgemm(Arguments...) {
  __builtin_trap();
}
inline void openblas_set_num_threads(int) {}
inline const char* openblas_get_config() {
  return "";
}
inline const char* openblas_get_corename() {
  return "";
}
