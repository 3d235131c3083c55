#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace moescope {

// Returns the seeds with which a test checks a statement about training: 1 in the suite; 1 to N if MOESCOPE_SEEDS=N is
// set, as in tests/campaign.
inline std::vector<std::int64_t> tried_seeds() {
  const char* seed_count = std::getenv("MOESCOPE_SEEDS");
  std::vector<std::int64_t> seeds = {1};
  for (std::int64_t seed = 2; seed_count && seed <= std::atoi(seed_count); ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace moescope
