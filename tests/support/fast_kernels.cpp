// Part of every test program: starts it with the matrix kernels that MoEScope itself picks (kernels.h). Those that
// OpenBLAS falls back to on processors it does not know make the suite three times slower.
#include "core/numerics/kernels.h"

// The C library of Linux gives arguments to constructors, too; main() belongs to the test frameworks.
__attribute__((constructor)) static void choose_kernels(int, char** argv, char**) {
  moescope::ensure_fast_openblas(argv);
}
