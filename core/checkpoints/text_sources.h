// The texts of a checkpoint's run: as token ids with the names of their domains, where they come from, and how a
// recording says so, so that they can be run once more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config/run_settings.h"
#include "core/numerics/matrix.h"
#include "core/tokenizer/tokenizer.h"

namespace moescope {

struct LabelledText {
  std::string name;  // name of its domain; several texts may have the same
  std::vector<std::int32_t> ids;
};

struct TextSources {
  // Paths of text files, whose domains are their names without extensions, and of folders whose entries are domains: a
  // file or a folder of files each. Files with NUL bytes are no texts and are skipped.
  std::vector<std::string> texts = {};
  std::vector<std::string> token_ids = {};  // paths of files of integers between blanks, commas and brackets
  std::string prompt = {};                  // a text of the domain "prompt"; empty: none
  int length = 512;                         // tokens of a piece
};

// `tokenizer` may be nullptr if there are token ids alone. Throws std::runtime_error "PATH: why".
std::vector<LabelledText> read_all(const TextSources& sources, const Tokenizer* tokenizer);

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

std::string absolute_path(const std::string& path);  // without "." and ".."; "" stays

// Settings of a run as they stand in a marker of kind kSettingsMarker: a JSON object, paths absolute.
std::string settings_json(const TextSources& sources, const char* score_func);
// nullopt: these are not the settings of a checkpoint's run.
std::optional<TextSources> text_sources_in(const LogSettings& settings);

}  // namespace moescope
