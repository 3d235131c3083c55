#include "core/model/tokenizer/byte_alphabet.h"

#include <array>

#include "core/model/tokenizer/characters.h"

namespace moescope {
namespace {

constexpr char32_t kFirstOfOthers = 0x100;

struct ByteAlphabet {
  std::array<std::string, 256> character;         // by byte, UTF-8
  std::array<int, 2 * kFirstOfOthers> byte_of{};  // by character; -1 if it is not in the alphabet

  ByteAlphabet() {
    byte_of.fill(-1);
    char32_t other = kFirstOfOthers;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t c = printable ? static_cast<char32_t>(byte) : other++;
      append_character(character[byte], c);
      byte_of[c] = byte;
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

void append_as_characters(std::string& to, std::string_view bytes) {
  const ByteAlphabet& alphabet = byte_alphabet();
  for (const char byte : bytes) to += alphabet.character[static_cast<unsigned char>(byte)];
}

bool append_as_bytes(std::string& to, std::string_view text) {
  const ByteAlphabet& alphabet = byte_alphabet();
  const std::size_t before = to.size();
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c >= alphabet.byte_of.size() || alphabet.byte_of[c] < 0) {
      to.resize(before);
      return false;
    }
    to += static_cast<char>(alphabet.byte_of[c]);
  }
  return true;
}

}  // namespace moescope
