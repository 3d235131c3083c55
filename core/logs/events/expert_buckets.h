// Reads the loads of experts from histograms of expert numbers, in which every bucket must hold one expert.
#pragma once

#include <vector>

namespace moescope {

// Experts `lowest` to `highest`, both inclusive.
struct ExpertBucket {
  double lowest = 0, highest = 0, count = 0;
};

// Returns the bucket with the whole numbers in [from, to), or in [from, to] if it is the last bucket. Throws Unreadable
// if the limits do not rise or the count is negative or NaN.
ExpertBucket bucket_between(double from, double to, double count, bool last);

// Returns the count of each expert. Throws Unreadable if a bucket is wider than one expert, or if there are too many
// experts.
std::vector<double> counts_of(const std::vector<ExpertBucket>& buckets);

}  // namespace moescope
