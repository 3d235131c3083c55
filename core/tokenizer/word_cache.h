// A cache of the tokens of pieces, because most words of a text occur again.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokenizer/token_model.h"

namespace moescope {

class WordCache {
 public:
  void append(const TokenModel& model, std::string_view piece, std::vector<TokenId>& ids) {
    if (const auto known = words_.find(piece); known != words_.end()) {
      ids.insert(ids.end(), known->second.begin(), known->second.end());
      return;
    }
    const std::size_t before = ids.size();
    model.encode(piece, ids);
    if (piece.size() > kLongest) return;
    if (words_.size() == kMostWords) words_.clear();
    words_.emplace(piece, std::vector<TokenId>(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end()));
  }

 private:
  static constexpr std::size_t kLongest = 128;  // bytes
  static constexpr std::size_t kMostWords = std::size_t{1} << 16;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view piece) const { return std::hash<std::string_view>()(piece); }
  };
  std::unordered_map<std::string, std::vector<TokenId>, Hash, std::equal_to<>> words_;
};

}  // namespace moescope
