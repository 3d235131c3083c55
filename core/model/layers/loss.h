// Mean cross-entropy over all tokens, in nats, and its gradient.
#pragma once

#include <cstdint>

#include "core/model/layers/batch_part.h"
#include "core/numerics/matrix.h"

namespace moescope {

// logits_TV are those of this rank's tokens. dlogits_TV = (softmax - one-hot) / tokens of the whole batch; `loss_T`
// receives each token's loss. Returns the mean over the whole batch.
template <class T>
double cross_entropy(ConstMatrix<T> logits, const std::int32_t* target, const BatchPart& part, Matrix<T> dlogits,
                     T* loss);

}  // namespace moescope
