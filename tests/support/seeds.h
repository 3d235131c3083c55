#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace moescope {

/// The seeds that a statement about training is tried with: 1 in the suite, 1 to N where MOESCOPE_SEEDS=N asks for
/// more, as tests/campaign does.
inline std::vector<std::int64_t> tried_seeds() {
  const char* asked = std::getenv("MOESCOPE_SEEDS");
  std::vector<std::int64_t> seeds = {1};
  for (std::int64_t seed = 2; asked && seed <= std::atoi(asked); ++seed) seeds.push_back(seed);
  return seeds;
}

}  // namespace moescope
