#include "core/model/moe/moving_quantile.h"

#include <algorithm>
#include <array>

#include "core/numerics/size.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

// The moving average of one expert's histogram of scores.
class MovingHistogram {
 public:
  void add(double score) {
    for (double& share : shares_) share *= kMovingDecay;
    // A NaN, which occurs if training has diverged, goes to bin 0.
    const double bin = score * kMovingBins;
    shares_[bin > 0 ? size(static_cast<int>(std::min(bin, kMovingBins - 1.0))) : 0] += 1 - kMovingDecay;
    sum_ = sum_ * kMovingDecay + (1 - kMovingDecay);
  }
  // Returns the middle of the first bin up to which the shares add up to at least `part` of their sum.
  double quantile(double part) const {
    std::size_t bin = 0;
    for (double below = shares_[0]; below < part * sum_ && bin + 1 < shares_.size(); below += shares_[bin]) ++bin;
    return (bin + 0.5) / kMovingBins;
  }

 private:
  std::array<double, kMovingBins> shares_{};
  double sum_ = 0;
};

}  // namespace

template <class T>
void level_sequences(const RouterConfig& config, const BatchPart& part, Matrix<const T> scores,
                     const std::uint8_t* killed, std::vector<T>& levelled_scores) {
  const std::size_t experts = size(static_cast<int>(scores.cols)), length = size(part.length);
  const auto living = experts - (killed ? size(static_cast<int>(std::count(killed, killed + experts, 1))) : 0);
  const double rejected = 1 - static_cast<double>(config.top_k) / static_cast<double>(living);
  levelled_scores.resize(part.tokens() * experts);
  parallel_for(part.sequences, [&](int s) {
    std::vector<MovingHistogram> histograms(experts);
    for (std::size_t t = size(s) * length; t < (size(s) + 1) * length; ++t)
      for (std::size_t e = 0; e < experts; ++e) {
        const auto score = static_cast<double>(scores.data[t * experts + e]);
        histograms[e].add(score);
        levelled_scores[t * experts + e] =
            static_cast<T>(score - config.sequence_strength * histograms[e].quantile(rejected));
      }
  });
}

template void level_sequences<float>(const RouterConfig&, const BatchPart&, Matrix<const float>, const std::uint8_t*,
                                     std::vector<float>&);
template void level_sequences<double>(const RouterConfig&, const BatchPart&, Matrix<const double>, const std::uint8_t*,
                                      std::vector<double>&);

}  // namespace moescope
