#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace moescope {

// Returns the seeds with which a test checks a statement about training: 1 in the suite; 1 to N if MOESCOPE_SEEDS=N is
// set, as in tests/campaign.
inline std::vector<std::int64_t> tried_seeds() {
  const char* asked = std::getenv("MOESCOPE_SEEDS");
  std::vector<std::int64_t> seeds = {1};
  for (std::int64_t seed = 2; asked && seed <= std::atoi(asked); ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace moescope
