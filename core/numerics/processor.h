// What computes products on this processor. Beside config, seed and data it alone decides the bits of a run: other
// kernels add in another order. A recording and a checkpoint store it, so that whoever repeats a training elsewhere
// knows what to expect.
#pragma once

#include <string>

#include "core/numerics/kernel_names.h"

namespace moescope {

const Kernels& kernels_here();
std::string openblas_core();  // whose kernels OpenBLAS uses in this process: "Haswell"
// The core whose kernels OpenBLAS should use, since those that it chose are older than this CPU's instruction sets
// (it falls back to kernels of 2004 for CPU models that it does not know); nullptr: its choice fits.
const char* better_openblas_core();

struct KernelCheck {
  enum class Outcome { same, not_recorded, other };
  Outcome outcome = Outcome::same;
  std::string text;  // a sentence or two: by what it was computed, and what there is here
  // What comes nearer to the recorded kernels, and this CPU can run; empty: nothing.
  std::string core;   // OPENBLAS_CORETYPE
  std::string units;  // choose_matrix_unit()'s
  bool helps() const { return !core.empty() || !units.empty(); }
};
// `recorded`: RunInfo::kernels or those of a checkpoint, Kernels::text(); empty: not known.
KernelCheck check_kernels(const std::string& recorded);

}  // namespace moescope
