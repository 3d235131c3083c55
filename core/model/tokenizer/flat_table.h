// A hash table from 64-bit keys to small values with room for a known number of entries. It holds merges of pairs and
// edges of tries, which are looked up for every character of a text.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
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

// A trie of words, which finds in one pass all words that a text begins with.
class ByteTrie {
 public:
  explicit ByteTrie(std::size_t bytes_of_all_words) : edges_(bytes_of_all_words) {}

  void add(std::string_view word, std::int32_t id) {  // `word` must not be empty; a later id replaces an earlier one
    std::uint64_t node = 0;
    for (const char c : word) {
      const std::uint64_t edge = node << 8 | static_cast<unsigned char>(c);
      const std::uint32_t next = static_cast<std::uint32_t>(ids_.size());
      if (edges_.add(edge, next)) ids_.push_back(kNoWord);
      node = *edges_.find(edge);
    }
    ids_[node] = id;
  }

  // Calls found(length, id) for every word that `text` begins with, shortest first. Returns the number of bytes that it
  // looked up.
  template <class Found>
  std::size_t visit_prefixes(std::string_view text, Found found) const {
    std::uint64_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::uint32_t* next = edges_.find(node << 8 | static_cast<unsigned char>(text[i]));
      if (!next) return i + 1;
      node = *next;
      if (ids_[node] != kNoWord) found(i + 1, ids_[node]);
    }
    return text.size();
  }

 private:
  static constexpr std::int32_t kNoWord = -1;
  FlatTable<std::uint32_t> edges_;  // from node and byte to the next node
  std::vector<std::int32_t> ids_{kNoWord};
};

}  // namespace moescope
