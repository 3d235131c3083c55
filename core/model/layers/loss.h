// Mean cross-entropy over all tokens but padding, in nats, and its gradient.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model/layers/batch_part.h"
#include "core/numerics/matrix.h"

namespace moescope {

struct LossTargets {
  const std::int32_t* next;               // [T] the next token of each token here
  std::size_t counted;                    // tokens of the whole batch that are no padding
  const std::uint8_t* padding = nullptr;  // [T] 1: no loss and no gradient; nullptr: there is none
};

// logits_TV of the tokens here; dlogits_TV = (softmax - one-hot) / tokens that are counted, `loss_T` receives each
// token's loss. Returns the mean over the whole batch.
template <class T>
double cross_entropy(ConstMatrix<T> logits, const LossTargets& targets, const BatchPart& part, Matrix<T> dlogits,
                     T* loss);

}  // namespace moescope
