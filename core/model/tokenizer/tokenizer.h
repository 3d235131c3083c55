// Converts text to token ids and back as a model's tokenizer.json says. Ids equal those of Hugging Face's `tokenizers`
// (https://huggingface.co/docs/tokenizers).
//
// A text goes through these steps: added tokens are found, the text between them is normalized and cut into pieces, the
// model (byte-level or other BPE, or Unigram) turns each piece into tokens, and special tokens are added around them.
// WordPiece and WordLevel are not supported; truncation and padding of the file are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

// Whether special tokens are added around the ids of a text, or kept when ids become text.
enum class SpecialTokenUse : std::uint8_t { with, without };

// Special tokens that are added around the ids of a text.
struct SpecialTokens {
  std::vector<std::int32_t> before, after;
  bool operator==(const SpecialTokens&) const = default;
};

class Tokenizer {
 public:
  // Throws std::runtime_error "PATH: KEY: why".
  explicit Tokenizer(const std::string& path);
  Tokenizer(std::string_view json, const std::string& name);  // the content of such a file, and its name in messages
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // May be called from any thread. Bytes that are not UTF-8 are read as U+FFFD. Throws std::runtime_error "PATH: why"
  // if the vocabulary lacks a character and has no token for unknown ones, or if the text takes more work or memory
  // than a text of its length should (TextBudget).
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokenUse use = SpecialTokenUse::with) const;
  // Ids without a token are left out. Throws std::runtime_error "PATH: why" if a regular expression takes too long.
  std::string decode(std::span<const std::int32_t> ids, SpecialTokenUse use = SpecialTokenUse::without) const;

  // Return a token's spelling in the vocabulary ("Ġthe", "▁the") and its bytes (" the"), which may be a part of a
  // character; nullopt if no token has this id.
  std::optional<std::string> spelling(std::int32_t id) const;
  std::optional<std::string> bytes(std::int32_t id) const;
  std::int32_t end() const;                                            // one more than the largest id
  std::optional<std::int32_t> id_of(std::string_view spelling) const;  // nullopt if there is no such token
  const SpecialTokens& special_tokens() const;
  void set_special_tokens(SpecialTokens tokens);  // of the ids that encode() returns from now on

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace moescope
