#include "core/model/layers/loss.h"

#include <cstddef>

#include "core/numerics/threads.h"
#include "core/numerics/row_math.h"

namespace moescope {
namespace {

constexpr std::size_t kLossTokens = 32;

template <class T>
void loss_rows(const T* logits, const std::int32_t* target, std::size_t rows, std::size_t vocab, T share, T* dlogits,
               T* loss) {
  for (std::size_t r = 0; r < rows; ++r) {
    const T* z = logits + r * vocab;
    T* d = dlogits + r * vocab;
    const std::size_t wanted = static_cast<std::size_t>(target[r]);
    loss[r] = softmax_row(z, vocab, T{1}, d) - z[wanted];
    d[wanted] -= T{1};
    for (std::size_t i = 0; i < vocab; ++i) d[i] *= share;
  }
}

}  // namespace

template <class T>
double cross_entropy(const T* logits, const std::int32_t* target, const BatchPart& part, int vocab, T* dlogits,
                     T* loss) {
  const std::size_t v = static_cast<std::size_t>(vocab);
  const T share = T{1} / static_cast<T>(part.all_tokens);
  parallel_slices(part.tokens(), kLossTokens, [&](std::size_t first, std::size_t last) {
    loss_rows(logits + first * v, target + first, last - first, v, share, dlogits + first * v, loss + first);
  });
  const auto sum_of = [loss](std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t t = first; t < last; ++t) sum += static_cast<double>(loss[t]);
    return sum;
  };
  return sum_over_batch(part, sum_of) / static_cast<double>(part.all_tokens);
}

template double cross_entropy<float>(const float*, const std::int32_t*, const BatchPart&, int, float*, float*);
template double cross_entropy<double>(const double*, const std::int32_t*, const BatchPart&, int, double*, double*);

}  // namespace moescope
