// Sequential random numbers of one stream, and functions that draw with them.
#pragma once

#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core/numerics/rng.h"

namespace moescope {

class RoutingDraws {
 public:
  RoutingDraws(std::int64_t seed, std::string_view purpose) : stream_(seed, purpose) {}
  double uniform() { return stream_.uniform(next_++); }
  int below(int n) { return static_cast<int>(uniform() * n); }  // the bias of 2^-53 n is negligible
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (int i = static_cast<int>(values.size()) - 1; i > 0; --i) std::swap(values[i], values[below(i + 1)]);
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

inline std::vector<std::int32_t> first_ids(std::size_t count) {
  std::vector<std::int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

}  // namespace moescope
