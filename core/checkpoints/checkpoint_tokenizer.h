// The tokenizer of a checkpoint: tokenizer.json, and tokenizer_config.json, which decides whether tokens for the
// beginning and the end of a text are added.
#pragma once

#include <string>
#include <vector>

#include "core/model/tokenizer/tokenizer.h"

namespace moescope {

struct CheckpointTokenizer {
  Tokenizer tokenizer;
  // Contradictions between the two files, and how they were decided. transformers 4 obeys add_bos_token and
  // add_eos_token if tokenizer_class is a class such as LlamaTokenizerFast, and so does this program; transformers 5
  // does as tokenizer.json says.
  std::vector<std::string> notes = {};
};
// Throws std::runtime_error "PATH: KEY: why".
CheckpointTokenizer open_checkpoint_tokenizer(const std::string& folder);

}  // namespace moescope
