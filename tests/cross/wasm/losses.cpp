// Trains with portable products and compares the losses with the kept hashes. The unit has all that the model needs but
// the kernels.
// clang-format off
#include "core/cluster/ranks/two_hop.cpp"
#include "core/config/expert_list.cpp"
#include "core/config/mixture.cpp"
#include "core/config/operand_recipes.cpp"
#include "core/files/text/text_escape.cpp"
#include "core/files/text/words.cpp"
#include "core/frame/frame.cpp"
#include "core/numerics/block_anatomy.cpp"
#include "core/numerics/block_quantize.cpp"
#include "core/numerics/elementary.cpp"
#include "core/numerics/float_formats.cpp"
#include "core/numerics/gemm.cpp"
#include "core/numerics/gemm_operand.cpp"
#include "core/numerics/matrix_units.cpp"
#include "core/numerics/number_format.cpp"
#include "core/numerics/processor.cpp"
#include "core/numerics/product.cpp"
#include "core/numerics/quantize.cpp"
#include "core/numerics/recipes.cpp"
#include "core/numerics/scale_rules.cpp"
#include "core/numerics/statistics.cpp"
#include "core/numerics/threads.cpp"
// clang-format on
#include <cstdio>

#include "tests/support/portable_training.h"

int main() {
  int differing = 0;
  for (const moescope::PortableTraining& training : moescope::portable_trainings()) {
    const std::string digest = moescope::digest_of_losses(moescope::portable_losses(training.config));
    const bool equal = digest == training.digest;
    std::printf("%-16s %s %s\n", training.name, digest.c_str(), equal ? "equal" : "DIFFERENT");
    differing += !equal;
  }
  return differing;
}
