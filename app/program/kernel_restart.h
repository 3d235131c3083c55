// Restarts a program of MoEScope, window or command line, with the environment that its kernels need: OpenBLAS and
// OpenMP read their variables before main(). Does not use Qt.
#pragma once

#include <string>

#include "core/numerics/processor.h"

namespace moescope {

// Restarts this program once with other environment variables where needed: with OPENBLAS_CORETYPE if OpenBLAS chose
// kernels that are older than the CPU (unless the user set it), and with GOMP_SPINCOUNT, so that the threads of a loop
// spin shortly before they sleep (unless the user set it or OMP_WAIT_POLICY). Call first in main(). Returns a sentence
// for the log and the About box.
std::string start_with_fast_kernels(char** argv);

// Returns check_kernels(), after a restart of this program with the recorded core and matrix units if that helps. Keeps
// the core and matrix units that the user set. Call before the program begins anything that a restart would lose.
KernelCheck use_recorded_kernels(const std::string& recorded);

}  // namespace moescope
