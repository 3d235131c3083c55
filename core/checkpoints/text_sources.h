// Where the texts of a checkpoint's run come from, and how its recording says so, so that they can be run once more.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/checkpoints/labelled_texts.h"
#include "core/config/run_settings.h"

namespace moescope {

struct TextSources {
  std::vector<std::string> texts = {};      // paths for read_texts()
  std::vector<std::string> token_ids = {};  // paths for read_token_ids()
  std::string prompt = {};                  // a text of the domain "prompt"; empty: none
  int length = 512;                         // tokens of a piece
};

// `tokenizer` may be nullptr if there are token ids alone. Throws std::runtime_error as read_texts().
std::vector<LabelledText> read_all(const TextSources& sources, const Tokenizer* tokenizer);

std::string absolute_path(const std::string& path);  // without "." and ".."; "" stays

// Settings of a run as they stand in a marker of kind kSettingsMarker: a JSON object, paths absolute.
std::string settings_json(const TextSources& sources, const char* score_func);
// nullopt: these are not the settings of a checkpoint's run.
std::optional<TextSources> text_sources_in(const LogSettings& settings);

}  // namespace moescope
