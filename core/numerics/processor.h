// The kernels that compute matrix products on this processor. The bits of a run depend on config, seed, data and these
// kernels alone: other kernels add in another order. Recordings and checkpoints store their names, so that a user who
// repeats a training on another machine knows which result to expect.
#pragma once

#include <string>

#include "core/numerics/kernel_names.h"

namespace moescope {

const Kernels& kernels_here();
std::string openblas_core();  // the CPU core for which OpenBLAS's kernels in this process were written: "Haswell"
// Returns the core whose kernels OpenBLAS should use if those that it chose are older than this CPU's instruction sets
// (for an unknown CPU model OpenBLAS falls back to kernels of 2004); nullptr if OpenBLAS's choice fits.
const char* better_openblas_core();

struct KernelCheck {
  enum class Outcome { equal, not_recorded, other };
  Outcome outcome = Outcome::equal;
  std::string text;  // a sentence or two: the kernels that computed the run, and those of this machine
  // Settings that this CPU can run and that come nearer to the recorded kernels; empty if there are none.
  std::string core;   // OPENBLAS_CORETYPE
  std::string units;  // argument of choose_matrix_unit()
  bool helps() const { return !core.empty() || !units.empty(); }
};
// `recorded` is RunInfo::kernels or a checkpoint's Kernels::text(); empty if not known.
KernelCheck check_kernels(const std::string& recorded);

}  // namespace moescope
