// The letters of compared runs: candidates are A, B, C, ... in their order, noise twins N, N2, ...
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moescope {

// Returns how many runs of the same kind (candidates or noise twins) precede `place`. Places beyond `twins` are
// candidates.
inline int number_of_its_kind(const std::vector<bool>& twins, std::size_t place) {
  const auto is_twin = [&](std::size_t run) { return run < twins.size() && twins[run]; };
  int number = 0;
  for (std::size_t run = 0; run < place; ++run) number += is_twin(run) == is_twin(place);
  return number;
}

inline std::string run_letter(const std::vector<bool>& twins, std::size_t place) {
  const int number = number_of_its_kind(twins, place);
  if (place >= twins.size() || !twins[place]) return std::string(1, static_cast<char>('A' + number));
  return number == 0 ? "N" : "N" + std::to_string(number + 1);
}

}  // namespace moescope
