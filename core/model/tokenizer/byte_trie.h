// A trie of words, which finds in one pass all words that a text begins with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/tokenizer/flat_table.h"

namespace moescope {

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
  std::size_t each_prefix(std::string_view text, Found found) const {
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
