// Preloaded into a program: OpenBLAS as it is on a processor that it does not know, with the kernels of 2004 unless a
// type is asked for. Says on standard error which type each question for the kernels met.
#include <cstdio>
#include <cstdlib>

extern "C" char* openblas_get_corename() {
  static char oldest[] = "Prescott";
  char* asked = std::getenv("OPENBLAS_CORETYPE");
  std::fprintf(stderr, "kernels: %s\n", asked ? asked : oldest);
  return asked ? asked : oldest;
}
