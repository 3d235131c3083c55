// NVFP4's 4over6: which of two scales a block gets (scale_rules.h has both).
#pragma once

#include "core/numerics/matrix.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

// Values that share a scale: `rows` of up to sixteen of `count` values of up to sixteen.
struct SharedBlock {
  const float* x;
  Index rows, row_stride, count, step;
};

// Whether the block's largest value, `amax`, goes to 4 and not to 6: the error of that is smaller. Errors of a row are
// added one after the other, those of sixteen rows pairwise, eight apart, then four, two and one; of values as they
// are, all in float32, as TransformerEngine adds them.
bool goes_to_four(const Nvfp4Scaling& scaling, const Nvfp4Tensor& tensor, float amax, const SharedBlock& block);

}  // namespace moescope
