// The processes (ranks) among which experts and tokens of one training are spread.
//
// Legend: R ranks. Every call is collective: all ranks make it, in the same order, or all of them wait for ever.
// R is a power of two, so that sums over ranks are a balanced tree, which one process can add in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moescope {

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends `bytes` to `partner`, which does the same with this rank.
  virtual void exchange(int partner, const void* send, void* receive, std::size_t bytes) = 0;
  // `all` [R][bytes] in order of ranks.
  virtual void gather_all(const void* mine, std::size_t bytes, void* all) = 0;
  // Elements of 1 byte; counts and offsets [R]. What a rank keeps for itself is copied.
  struct Parts {
    std::vector<std::size_t> bytes, offset;
  };
  virtual void all_to_all(const void* send, const Parts& sent, void* receive, const Parts& received) = 0;
};

// Element by element over all ranks, (0 + 1) + (2 + 3): the same bits on every rank. nullptr: one rank, nothing to do.
template <class T>
void sum_over_ranks(Ranks* ranks, T* values, std::size_t count) {
  if (!ranks) return;
  std::vector<T> other(count);
  for (int distance = 1; distance < ranks->size(); distance *= 2) {
    ranks->exchange(ranks->rank() ^ distance, values, other.data(), count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) values[i] += other[i];  // the same either way round
  }
}

}  // namespace moescope
