// Text to token ids and back, as a model's tokenizer.json says (Hugging Face's `tokenizers`,
// https://huggingface.co/docs/tokenizers): the same ids as that package gives.
//
// A text goes through these steps: added tokens are found, what lies between is normalized and cut into pieces, the
// model (byte-level or other BPE, or Unigram) turns each piece into tokens, and special tokens are put around. Not
// read: WordPiece and WordLevel; truncation and padding of the file are left out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

// Whether those that begin or end a text are put around the ids, or left out when ids become text.
enum class SpecialTokenUse : std::uint8_t { with, without };

class Tokenizer {
 public:
  // Throws std::runtime_error "PATH: KEY: why".
  explicit Tokenizer(const std::string& path);
  Tokenizer(std::string_view json, const std::string& name);  // the content of such a file, and its name in messages
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Any thread. What is not UTF-8 is read as U+FFFD. Throws std::runtime_error "PATH: why" where the vocabulary lacks a
  // character and has no token for that, or a regular expression takes too long.
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokenUse use = SpecialTokenUse::with) const;
  // Ids of no token are left out. Throws as encode() does.
  std::string decode(std::span<const std::int32_t> ids, SpecialTokenUse use = SpecialTokenUse::without) const;

  // One token: as the vocabulary spells it ("Ġthe", "▁the"), and the bytes that it stands for (" the"), which may be a
  // part of a character. nullopt: no token has this id.
  std::optional<std::string> spelling(std::int32_t id) const;
  std::optional<std::string> bytes(std::int32_t id) const;
  std::optional<std::int32_t> id_of(std::string_view spelling) const;
  std::int32_t end() const;  // one more than the largest id

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace moescope
