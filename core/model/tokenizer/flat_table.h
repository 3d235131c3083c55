// A hash table from 64-bit keys to small values with room for a known number of entries. It holds merges of pairs and
// edges of tries, which are looked up for every character of a text.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moescope {

template <class Value>
class FlatTable {
 public:
  // A key may have any value except ~0.
  explicit FlatTable(std::size_t most_entries = 0)
      : slots_(std::bit_ceil(2 * std::max<std::size_t>(most_entries, 1))) {}

  // Returns false and keeps the present value if the key has one.
  bool add(std::uint64_t key, Value value) {
    Slot& slot = slots_[place(key)];
    if (slot.key == key) return false;
    slot = {key, value};
    return true;
  }
  void put(std::uint64_t key, Value value) { slots_[place(key)] = {key, value}; }  // replaces a present value
  const Value* find(std::uint64_t key) const {
    const Slot& slot = slots_[place(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kNone;
    Value value{};
  };

  std::size_t place(std::uint64_t key) const {
    std::uint64_t mixed = key ^ (key >> 33);
    mixed *= 0xff51afd7ed558ccdULL;
    mixed ^= mixed >> 33;
    std::size_t at = mixed & (slots_.size() - 1);
    while (slots_[at].key != key && slots_[at].key != kNone) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  std::vector<Slot> slots_;
};

}  // namespace moescope
