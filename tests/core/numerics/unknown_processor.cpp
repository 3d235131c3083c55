// Preloaded into a program, it replaces OpenBLAS's query of the kernels by that of a processor that OpenBLAS does not
// know: kernels of 2004, unless a type is asked for. Each query writes its answer to standard error.
#include <cstdio>
#include <cstdlib>

extern "C" char* openblas_get_corename() {
  static char oldest[] = "Prescott";
  char* requested = std::getenv("OPENBLAS_CORETYPE");
  std::fprintf(stderr, "kernels: %s\n", requested ? requested : oldest);
  return requested ? requested : oldest;
}
