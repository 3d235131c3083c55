// Mean cross-entropy over all tokens except padding, in nats, and its gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/model/layers/batch_part.h"
#include "core/numerics/matrix.h"

namespace moescope {

struct LossTargets {
  std::span<const std::int32_t> next;  // [T] the token that follows each token of this rank
  std::size_t counted;                 // tokens of the whole batch that are not padding
  Mask padding = {};                   // [T] tokens without loss and gradient
};

// Returns the mean loss over the whole batch. logits_TV are those of this rank's tokens. Writes dlogits_TV = (softmax -
// one-hot) / `counted`, and each token's loss, in nats, to loss_T.
template <class T>
double cross_entropy(ConstMatrix<T> logits, const LossTargets& targets, const BatchPart& part, Matrix<T> dlogits,
                     std::span<T> loss);

}  // namespace moescope
