// The texts of a checkpoint's run: their token ids and domains, the files that they come from, and the settings in a
// recording that name these files, so that the texts can be run again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config/run_settings.h"
#include "core/model/tokenizer/tokenizer.h"
#include "core/numerics/matrix.h"

namespace moescope {

struct LabelledText {
  std::string name;               // name of its domain; several texts may have the same
  std::vector<std::int32_t> ids;  // its tokens
};

struct TextSources {
  // Paths of text files and of folders. The domain of a text file is its name without extension. Each entry of a folder
  // is a domain: a file, or a folder of files.
  std::vector<std::string> texts = {};
  std::vector<std::string> token_ids = {};  // paths of files of integers between blanks, commas and brackets
  std::string prompt = {};                  // a text of the domain "prompt"; empty: none
  int length = 512;                         // tokens of a piece
};

struct ReadTexts {
  std::vector<LabelledText> texts;
  std::vector<std::string>
      notes;  // "PATH: left out: is UTF-16 text ..." for each file of a folder that is not UTF-8 text
};
// Empty files are left out. `tokenizer` may be nullptr if all sources are token ids. Throws std::runtime_error
// "PATH: why", also if a file that is named itself is not UTF-8 text.
ReadTexts read_all(const TextSources& sources, const Tokenizer* tokenizer);

struct ComparedTexts {
  Index length = 512;
  int pieces = 8;  // largest number of pieces of all texts; the texts alternate
};
// A piece of the text with index `text`.
struct TextPiece {
  std::size_t text;
  std::span<const std::int32_t> ids;  // its tokens, two or more
};
// Cuts each text into pieces of ComparedTexts::length tokens and a shorter remainder. A piece of one token predicts
// nothing and is left out. Throws std::runtime_error if no text has two tokens.
std::vector<TextPiece> pieces_of(const std::vector<LabelledText>& texts, const ComparedTexts& which);
// Throws std::runtime_error if a measurement that runs each piece so many times needs more than 100 million passes.
void require_passes(std::size_t pieces, std::size_t passes_of_piece);

// Returns the absolute path without "." and ".."; "" if `path` is empty.
std::string absolute_path(const std::string& path);

// Returns the settings of a run for a marker of kind kSettingsMarker: a JSON object with absolute paths.
std::string settings_json(const TextSources& sources, const char* score_func);
// Returns nullopt if `settings` are not those of a checkpoint's run.
std::optional<TextSources> text_sources_in(const LogSettings& settings);

}  // namespace moescope
