// Cuts a text into pieces, each of which the model turns into tokens by itself: the "pre_tokenizer" of tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/text_budget.h"

namespace moescope {

struct Piece {
  std::size_t begin = 0, end = 0;  // bytes of PieceList::text; not empty
  std::size_t start_bytes = 0;     // bytes at its beginning that come from the first character of the whole text
};

// A text between two added tokens, and its remaining pieces in order.
struct PieceList {
  std::string text;  // UTF-8
  std::vector<Piece> pieces;

  std::string_view text_of(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

using PreTokenizer = std::function<void(PieceList&, TextBudget&)>;  // throws std::runtime_error

// BertPreTokenizer, UnicodeScripts and FixedLength are not supported. Throws Unreadable naming the key.
PreTokenizer read_pre_tokenizer(const JsonPlace& place);

}  // namespace moescope
