// Restarts a program of MoEScope, window or command line, with the environment that its kernels need: OpenBLAS and
// OpenMP read theirs before main(). Without Qt.
#pragma once

#include <string>

#include "core/numerics/processor.h"

namespace moescope {

// Where OpenBLAS's kernels are older than the CPU, restarts this program once with OPENBLAS_CORETYPE set (unless the
// user set it). With the same restart threads of a loop spin shortly before they sleep (GOMP_SPINCOUNT, unless the user
// set it or OMP_WAIT_POLICY). Call first in main(). Returns a sentence for the log and the about box.
std::string start_with_fast_kernels(char** argv);

// check_kernels(), after a restart of this program with the recorded core and matrix units where that helps; those that
// the user set are kept. Call before the program begins anything that a restart would lose.
KernelCheck use_recorded_kernels(const std::string& recorded);

}  // namespace moescope
