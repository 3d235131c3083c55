// The steps of tokenizer.json that come before and after the model: "normalizer", "pre_tokenizer" and "decoder".
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/tokenizer/json_place.h"

namespace moescope {

// Limits the work and the memory for one text. A small tokenizer.json can describe steps whose product is huge: thirty
// steps that each double the text, or an expression that takes long on every piece. All functions that throw throw
// std::runtime_error. Steps are those of a regular expression, about 10 ns each.
class TextBudget {
 public:
  // Published tokenizers need less than a tenth of these limits.
  static constexpr std::size_t kStepsPerByte = 10'000, kMaxGrowth = 64;
  static constexpr std::size_t kFreeSteps = 100'000'000, kFreeBytes = std::size_t{1} << 20;

  explicit TextBudget(std::size_t text_bytes)
      : steps_left_(kFreeSteps + kStepsPerByte * std::min(text_bytes, kMaxBytes)),
        most_bytes_(kFreeBytes + kMaxGrowth * std::min(text_bytes, kMaxBytes)) {}

  void spend(std::size_t steps) {
    if (steps > steps_left_) throw std::runtime_error(kBudgetMessage);
    steps_left_ -= steps;
  }
  std::size_t steps_left() const { return steps_left_; }
  // Throws if a step made the text longer than a text of its length should become.
  void require_size(std::size_t bytes) const {
    if (bytes > most_bytes_)
      throw std::runtime_error(
          fmt::format("the steps of the tokenizer make the text more than {} times longer", kMaxGrowth));
  }

  static constexpr const char* kBudgetMessage = "the tokenizer takes too many steps on this text";

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  std::size_t steps_left_, most_bytes_;
};

struct NormalizedText {
  std::string text;             // UTF-8
  std::size_t start_bytes = 0;  // bytes at its beginning that come from the first character of the whole text
};

using Normalizer = std::function<void(NormalizedText&, TextBudget&)>;  // throws std::runtime_error

// BertNormalizer and Nmt are not supported. Throws Unreadable naming the key.
Normalizer read_normalizer(const JsonPlace& place);

// Cuts a text into pieces, each of which the model turns into tokens by itself: the "pre_tokenizer" of tokenizer.json.
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

// Turns tokens into text: the "decoder" of tokenizer.json. Takes the tokens of a text, spelled as in the vocabulary,
// and replaces them by texts that the caller concatenates. If `is_single`, replaces a single token by its bytes,
// regardless of its place in a text: a blank at its beginning is kept.
using TokenDecoder = std::function<void(std::vector<std::string>& tokens, bool is_single, TextBudget& budget)>;

// Reads ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, BPEDecoder and Sequence. Throws Unreadable naming the
// key.
TokenDecoder read_decoder(const JsonPlace& place);

// Metaspace: blanks are written as the character U+2581, and this character may be added before a text.
struct MetaspaceRules {
  enum class Prepend : std::uint8_t { always, first, never };  // first: only at the start of the whole text
  std::string replacement;                                     // one character
  Prepend prepend = Prepend::always;
  bool split = true;  // a new piece begins at each replacement character
};
MetaspaceRules read_metaspace(const JsonPlace& place);  // throws Unreadable naming the key

}  // namespace moescope
