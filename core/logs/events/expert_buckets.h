// Histograms of expert numbers: the load of each expert, where every bucket holds one expert.
#pragma once

#include <vector>

namespace moescope {

// Expert numbers from `lowest` to `highest`, both in it.
struct ExpertBucket {
  double lowest = 0, highest = 0, count = 0;
};

// The whole numbers in [from, to), of the last bucket in [from, to]. Throws Unreadable: the limits do not rise, or the
// count is none.
ExpertBucket bucket_between(double from, double to, double count, bool last);

// The count of each expert. Throws Unreadable: a bucket is wider than one expert; too many experts.
std::vector<double> counts_of(const std::vector<ExpertBucket>& buckets);

}  // namespace moescope
