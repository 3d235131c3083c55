// NVFP4's 4over6: chooses one of two scales for a block (scale_rules.h defines both).
#pragma once

#include "core/numerics/matrix.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

// Values that share a scale: up to sixteen rows of up to sixteen values each.
struct SharedBlock {
  const float* x;
  Index rows, row_stride, count, step;
};

// Returns whether the block's largest value, `amax`, goes to 4 and not to 6, because that gives the smaller error.
// Errors of one row are added one after the other; those of sixteen rows are added pairwise, eight apart, then four,
// two and one. Errors are in units of the values, in float32, as in TransformerEngine.
bool goes_to_four(const Nvfp4Scaling& scaling, const Nvfp4Tensor& tensor, float amax, const SharedBlock& block);

}  // namespace moescope
