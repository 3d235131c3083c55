#include "core/model/layers/loss.h"

#include <algorithm>

#include "core/numerics/kernels/row_math.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kLossTokens = 32;

template <class T>
void loss_rows(const Matrix<const T>& logits, std::span<const std::int32_t> target, T share, const Matrix<T>& dlogits,
               std::span<T> loss) {
  for (Index r = 0; r < logits.rows; ++r) {
    const T* z = logits.row(r);
    T* d = dlogits.row(r);
    loss[r] = softmax_row(z, logits.cols, T{1}, d) - z[target[r]];
    d[target[r]] -= T{1};
    for (Index i = 0; i < logits.cols; ++i) d[i] *= share;
  }
}

}  // namespace

template <class T>
double cross_entropy(ConstMatrix<T> logits, const LossTargets& targets, const BatchPart& part, Matrix<T> dlogits,
                     std::span<T> loss) {
  const T share = T{1} / static_cast<T>(targets.counted);
  parallel_slices(part.tokens(), kLossTokens, [&](Index first, Index last) {
    const Index count = last - first;
    loss_rows<T>(logits.row_block(first, count), targets.next.subspan(first, count), share,
                 dlogits.row_block(first, count), loss.subspan(first, count));
    if (targets.padding.empty()) return;
    for (Index t = first; t < last; ++t) {
      if (!targets.padding[t]) continue;
      loss[t] = T{0};
      std::fill_n(dlogits.row(t), dlogits.cols, T{0});
    }
  });
  const auto sum_of = [loss](std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t t = first; t < last; ++t) sum += static_cast<double>(loss[t]);
    return sum;
  };
  return sum_over_batch(part, sum_of) / static_cast<double>(targets.counted);
}

template double cross_entropy<float>(ConstMatrix<float>, const LossTargets&, const BatchPart&, Matrix<float>,
                                     std::span<float>);
template double cross_entropy<double>(ConstMatrix<double>, const LossTargets&, const BatchPart&, Matrix<double>,
                                      std::span<double>);

}  // namespace moescope
