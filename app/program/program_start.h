// The first calls of both programs, window and command line: standard streams, and a restart with the environment that
// the kernels need, because OpenBLAS and OpenMP read their variables before main(). Does not use Qt.
#pragma once

#include <string>

#include "core/numerics/processor.h"

namespace moescope {

// Opens standard input, output and error if the program was started with them closed. Call it before any file is
// opened: otherwise a file could become one of the three streams, and messages would be written into it. Reading and
// writing a stream that was closed fails, as before.
void keep_standard_streams();

// Restarts this program once with other environment variables where needed: with OPENBLAS_CORETYPE if OpenBLAS chose
// kernels that are older than the CPU (unless the user set it), and with GOMP_SPINCOUNT, so that the threads of a loop
// spin shortly before they sleep (unless the user set it or OMP_WAIT_POLICY). Call it before all but
// keep_standard_streams(). Returns a sentence for the log and the About box.
std::string start_with_fast_kernels(char** argv);

// Returns check_kernels(), after a restart of this program with the recorded core and matrix units if that helps. Keeps
// the core and matrix units that the user set. Call before the program begins anything that a restart would lose.
KernelCheck use_recorded_kernels(const std::string& recorded);

}  // namespace moescope
