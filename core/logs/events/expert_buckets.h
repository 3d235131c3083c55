// Histograms of expert numbers: they give the load of each expert if every bucket holds one expert.
#pragma once

#include <vector>

namespace moescope {

// Experts `lowest` to `highest`, both inclusive.
struct ExpertBucket {
  double lowest = 0, highest = 0, count = 0;
};

// Returns the bucket of the whole numbers in [from, to); of the last bucket, in [from, to]. Throws Unreadable if the
// limits do not rise or the count is not a valid count.
ExpertBucket bucket_between(double from, double to, double count, bool last);

// Returns the count of each expert. Throws Unreadable if a bucket is wider than one expert, or if there are too many
// experts.
std::vector<double> counts_of(const std::vector<ExpertBucket>& buckets);

}  // namespace moescope
