// Which kernels compute a run. Beside config, seed and data they alone decide its bits: other kernels add in another
// order. A recording and a checkpoint store them, so that a training done again elsewhere knows what to expect.
#pragma once

#include <string>

#include "core/numerics/kernel_names.h"

namespace moescope {

const Kernels& kernels_here();

struct KernelCheck {
  enum class Outcome { same, not_recorded, other };
  Outcome outcome = Outcome::same;
  std::string text;  // a sentence or two: by what it was computed, and what there is here
  // What comes nearer to what was recorded, and this CPU can run; empty: nothing.
  std::string core;   // OPENBLAS_CORETYPE
  std::string units;  // choose_matrix_unit()'s
  bool helps() const { return !core.empty() || !units.empty(); }
};
// `recorded`: RunInfo::kernels or those of a checkpoint, Kernels::text(); empty: not known.
KernelCheck check_kernels(const std::string& recorded);
// The same, after a restart of this program with the recorded core and matrix units where that helps; those that the
// user set are kept.
// Before anything was begun that a restart would lose.
KernelCheck use_recorded_kernels(const std::string& recorded);

// OpenBLAS picks kernels by CPU model and falls back to those of 2004 for models it does not know. Where the chosen
// kernels are older than the CPU's instruction sets, restarts this program once with OPENBLAS_CORETYPE set (a type
// that the user set is left alone). With the same restart threads of a loop spin shortly before they sleep
// (GOMP_SPINCOUNT, unless the user set it or OMP_WAIT_POLICY): libgomp reads it before main(). Call first in main().
// Returns a sentence for the log and the about box.
std::string ensure_fast_openblas(char** argv);

}  // namespace moescope
