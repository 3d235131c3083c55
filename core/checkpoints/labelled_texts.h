// Texts as token ids, each with the name of its domain.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/numerics/matrix.h"
#include "core/tokenizer/tokenizer.h"

namespace moescope {

struct LabelledText {
  std::string name;  // name of its domain; several texts may have the same
  std::vector<std::int32_t> ids;
};

// Reads a text file, whose domain is its name without extension, or a folder whose entries are domains: a file or a
// folder of files each. Files with NUL bytes are no texts and are skipped. Throws std::runtime_error "PATH: why".
std::vector<LabelledText> read_texts(const std::string& path, const Tokenizer& tokenizer);
// Reads integers separated by blanks, commas and brackets. Throws std::runtime_error "PATH: why".
LabelledText read_token_ids(const std::string& path);

struct ComparedTexts {
  Index length = 512;
  int pieces = 8;  // at most, in turns of the texts
};
// A piece of the text at place `text`.
struct TextPiece {
  std::size_t text;
  std::span<const std::int32_t> ids;
};
// Cuts texts into pieces of a length and a shorter remainder each. A piece of one token predicts nothing and is left
// out. Throws std::runtime_error: no text has two tokens.
std::vector<TextPiece> pieces_of(const std::vector<LabelledText>& texts, const ComparedTexts& which);

}  // namespace moescope
