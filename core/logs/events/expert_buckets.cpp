#include "core/logs/events/expert_buckets.h"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/files/text/words.h"
#include "core/logs/import.h"

namespace moescope {

namespace {

// Of a histogram of the loads themselves, which trainings log by mistake, the values are as many as the experts, and
// read as numbers of experts they would leave nearly all experts without tokens.
constexpr double kMinTokensOfAnExpert = 16;

}  // namespace

ExpertBucket bucket_between(double from, double to, double count, bool last) {
  if (!(to >= from) || !(count >= 0)) throw Unreadable("histogram: limits do not rise");
  return {std::ceil(from), last ? std::floor(to) : std::ceil(to) - 1, count};
}

std::vector<double> counts_of(const std::vector<ExpertBucket>& buckets) {
  std::vector<double> counts;
  for (const auto& [lowest, highest, count] : buckets) {
    if (count == 0) continue;
    if (!(lowest == highest))
      throw Unreadable("histogram: a bucket of more than one expert, so that their loads are not known");
    if (!(highest >= 0 && highest < kMaxImportedExperts)) throw Unreadable("histogram: too many experts");
    const auto expert = static_cast<std::size_t>(highest);
    if (counts.size() <= expert) counts.resize(expert + 1);
    counts[expert] += count;
  }
  const double tokens = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (tokens < kMinTokensOfAnExpert * counts.size())
    throw Unreadable(
        fmt::format("histogram: of {} values up to {}: too few for numbers of experts; it seems to be of the loads, "
                    "and does not say which expert has which load. Log the loads as a list",
                    shortest(tokens), counts.size() - 1));
  return counts;
}

}  // namespace moescope
