// Part of every test program. Starts the program with the matrix kernels that MoEScope picks (processor.h), because the
// kernels that OpenBLAS uses on a processor that it does not know make the suite three times slower. Sets the number of
// threads to one, because ctest runs one program per core; tests of threads set it to more.
#include <cstdlib>

#include "app/program/program_start.h"
#include "core/numerics/threads.h"

// Runs before main(), which the test frameworks define. The C library of Linux passes main()'s arguments to it.
__attribute__((constructor)) static void choose_kernels_and_threads(int, char** argv, char**) {
  moescope::start_with_fast_kernels(argv);
  moescope::set_num_threads(1);
  setenv("OMP_NUM_THREADS", "1", 1);  // for programs that a test starts
}
