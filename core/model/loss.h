// Mean cross-entropy over all tokens, in nats, and its gradient.
#pragma once

#include <cstdint>

namespace moescope {

// logits_TV; dlogits_TV = (softmax - one-hot) / T, `loss_T` receives each token's loss. Returns the mean.
template <class T>
double cross_entropy(const T* logits, const std::int32_t* target, int tokens, int vocab, T* dlogits, T* loss);

}  // namespace moescope
