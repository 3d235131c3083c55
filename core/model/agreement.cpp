#include "core/model/agreement.h"

#include <cmath>

namespace moescope {

Agreement agreement(const PredictedTokens& run, const PredictedTokens& reference,
                    std::span<const std::uint8_t> padding_T) {
  Agreement found;
  const Index vocabulary = run.logits.cols;
  const bool same_vocabulary = reference.logits.cols == vocabulary;
  for (Index t = 0; t < run.logits.rows; ++t) {
    if (!padding_T.empty() && padding_T[t]) continue;
    if (same_vocabulary)
      found.kl += kl_divergence(token_scores(reference.logits.row(t), vocabulary),
                                token_scores(run.logits.row(t), vocabulary), vocabulary);
    found.ratios.add(reference.loss_T[t] - static_cast<double>(run.loss_T[t]));
  }
  found.kl = same_vocabulary ? found.kl / found.ratios.tokens() : std::nan("");
  return found;
}

}  // namespace moescope
