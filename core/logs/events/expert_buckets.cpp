#include "core/logs/events/expert_buckets.h"

#include <cmath>
#include <cstddef>

#include "core/io/unreadable.h"
#include "core/logs/import.h"

namespace moescope {

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
  return counts;
}

}  // namespace moescope
