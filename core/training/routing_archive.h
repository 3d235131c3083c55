// Run A's routing of past steps, for runs that join later. Beyond the budget every second entry of the older half is
// dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/routing_flips.h"

namespace moescope {

class RoutingArchive {
 public:
  explicit RoutingArchive(std::size_t budget_bytes = std::size_t{64} << 20) : budget_(budget_bytes) {}
  void put(std::int64_t step, std::vector<KeptRouting> routing);  // forgets `step` and later steps first
  const std::vector<KeptRouting>* find(std::int64_t step) const;  // nullptr: not kept
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::int64_t step;
    std::uint64_t ordinal;
    std::vector<KeptRouting> routing;
  };
  void thin();

  std::size_t budget_;
  std::size_t bytes_ = 0;
  std::uint64_t next_ordinal_ = 0;
  std::vector<Entry> entries_;  // in the order of their steps
};

}  // namespace moescope
