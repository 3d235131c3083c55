// Part of every test program. Starts it with the matrix kernels that MoEScope itself picks (processor.h): those that
// OpenBLAS falls back to on processors it does not know make the suite three times slower. And trains on one thread,
// for ctest runs as many programs at a time as there are cores; tests about threads ask for more.
#include <cstdlib>

#include "app/program/kernel_restart.h"
#include "core/numerics/threads.h"

// The C library of Linux also passes arguments to constructors. main() belongs to the test frameworks.
__attribute__((constructor)) static void choose_kernels_and_threads(int, char** argv, char**) {
  moescope::start_with_fast_kernels(argv);
  moescope::set_num_threads(1);
  setenv("OMP_NUM_THREADS", "1", 1);  // of the programs that a test starts
}
