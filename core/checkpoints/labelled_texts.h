// Texts as token ids, each with the name of its domain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace moescope
