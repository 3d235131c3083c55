// Texts as token ids, each with the name of its domain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tokenizer/tokenizer.h"

namespace moescope {

struct LabelledText {
  std::string name;  // of its domain; texts may share one
  std::vector<std::int32_t> ids;
};

// A text file, whose name without its end is its domain; or a folder, whose entries are domains: a file each, or a
// folder of files. Files with NUL bytes, which are no texts, are passed over. Throws std::runtime_error "PATH: why".
std::vector<LabelledText> read_texts(const std::string& path, const Tokenizer& tokenizer);
// Whole numbers between blanks, commas and brackets.
LabelledText read_token_ids(const std::string& path);

}  // namespace moescope
