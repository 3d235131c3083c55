#include "core/findings/drop_watch.h"

#include <fmt/core.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr std::size_t kMeanOfShares = 50;

}  // namespace

double DropWatch::mean() const {
  return std::accumulate(recent_.begin(), recent_.end(), 0.0) / recent_.size();
}

void DropWatch::block(std::int64_t first, std::span<const float> shares) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!std::isfinite(shares[i])) continue;
    last_step_ = first + static_cast<std::int64_t>(i);
    recent_.push_back(shares[i]);
    if (recent_.size() > kMeanOfShares) recent_.pop_front();
    if (mean() < kMaxDroppedShare) {
      first_step_ = -1;
      loads_ = 0;
    } else if (loads_++ == 0) {
      first_step_ = last_step_;
    }
  }
}

void DropWatch::findings(std::vector<Finding>& out) const {
  if (loads_ < kDroppedLoads) return;
  const StepRange steps{first_step_, last_step_};
  Finding finding = layer_ == kWholeRun ? finding_of(FindingKind::dropped_tokens, run_, steps)
                                        : layer_finding(FindingKind::dropped_tokens, run_, layer_, steps);
  finding.knobs = {&RouterConfig::capacity_factor, &RouterConfig::bias_update_rate, &RouterConfig::aux_coeff};
  finding.brief = percent(mean()) + " of the copies of tokens are dropped";
  finding.title = layer_ == kWholeRun ? "The MoE layers drop " : finding.title + " drops ";
  finding.title += percent(mean()) + " of the copies of tokens";
  finding.observation =
      fmt::format("The mean of the newest {} logged shares is {}; it has been {} or more in {} of them in a row.",
                  recent_.size(), percent(mean()), percent(kMaxDroppedShare), grouped(loads_));
  finding.meaning =
      "A dropped copy is not computed: its token passes the layer with fewer experts, or only by the residual stream. "
      "A more even load or a larger capacity factor drops less.";
  out.push_back(std::move(finding));
}

}  // namespace moescope
