#include "core/checkpoints/text_sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr const char *kTexts = "texts", *kTokenIds = "token_ids", *kPrompt = "prompt", *kLength = "piece_tokens";

std::vector<std::string> paths_in(const LogSettings& settings, const char* key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return {};
  const nlohmann::json json = parse_json(found->second);
  if (!json.is_array()) return {};
  std::vector<std::string> paths;
  for (const nlohmann::json& path : json)
    if (path.is_string()) paths.push_back(path.get<std::string>());
  return paths;
}

constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error) refuse(folder.string(), error.message());
  std::ranges::sort(entries);
  return entries;
}

// Returns why a text is not UTF-8 text; "" if it is.
std::string problem_of_text(const std::string& text) {
  if (std::string problem = text_problem(text); !problem.empty()) return problem;
  return text.find('\0') == std::string::npos ? "" : "has NUL bytes, so that it is no text";
}

// Reads text files with one tokenizer.
class TextReader {
 public:
  TextReader(const Tokenizer& tokenizer, ReadTexts& to) : tokenizer_(tokenizer), to_(to) {}

  void read(const std::string& path) {
    const std::size_t before = to_.texts.size();
    if (!fs::is_directory(path)) {
      add_file(path, fs::path(path).stem().string(), true);
    } else {
      for (const fs::path& entry : entries_of(path)) {
        require_inside(path, entry);
        const std::string domain = entry.stem().string();
        if (fs::is_regular_file(entry)) add_file(entry, domain, false);
        // Links to folders are not followed: they could form a cycle.
        if (!fs::is_directory(fs::symlink_status(entry))) continue;
        for (const fs::path& file : entries_of(entry)) {
          require_inside(path, file);
          if (fs::is_regular_file(file)) add_file(file, domain, false);
        }
      }
    }
    if (to_.texts.size() > before) return;
    refuse(path, "holds no text" + (to_.notes.empty() ? "" : "; " + to_.notes.back()));
  }

 private:
  void add_file(const fs::path& path, const std::string& domain, bool required) {
    const std::string text = read_file(path.string(), kLargestText, "text");
    if (text.empty()) return;
    const std::string problem = problem_of_text(text);
    if (!problem.empty() && required) refuse(path.string(), problem);
    if (problem.empty())
      to_.texts.push_back({domain, tokenizer_.encode(text)});
    else
      to_.notes.push_back(path.string() + ": left out: " + problem);
  }

  const Tokenizer& tokenizer_;
  ReadTexts& to_;
};

LabelledText read_token_ids(const std::string& path) {
  const std::string text = read_file(path, kLargestText, "file of token ids");
  LabelledText read{fs::path(path).stem().string(), {}};
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error == std::errc::result_out_of_range) refuse(path, "holds a number beyond 2^31");
    if (error == std::errc()) {
      read.ids.push_back(id);
      at = next;
    } else if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
    } else {
      refuse(path, "holds '" + printable(std::string(1, *at)) + "'; allowed: whole numbers between blanks and commas");
    }
  }
  return read;
}

}  // namespace

ReadTexts read_all(const TextSources& sources, const Tokenizer* tokenizer) {
  ReadTexts read;
  if (!tokenizer && !(sources.texts.empty() && sources.prompt.empty()))
    throw std::runtime_error("texts need a tokenizer");
  for (const std::string& path : sources.texts) TextReader(*tokenizer, read).read(path);
  for (const std::string& path : sources.token_ids) read.texts.push_back(read_token_ids(path));
  if (!sources.prompt.empty()) read.texts.push_back({"prompt", tokenizer->encode(sources.prompt)});
  return read;
}

std::vector<TextPiece> pieces_of(const std::vector<LabelledText>& texts, const ComparedTexts& which) {
  const std::size_t length = which.length, max_pieces = which.pieces;
  std::vector<TextPiece> pieces;
  for (std::size_t first = 0, remaining_texts = texts.size(); remaining_texts > 0; first += length) {
    remaining_texts = 0;
    for (std::size_t text = 0; text < texts.size() && pieces.size() < max_pieces; ++text) {
      const std::span<const std::int32_t> ids(texts[text].ids);
      if (first + 2 > ids.size()) continue;
      pieces.push_back({text, ids.subspan(first, std::min(length, ids.size() - first))});
      ++remaining_texts;
    }
  }
  if (pieces.empty()) throw std::runtime_error("no text has two tokens");
  return pieces;
}

void require_passes(std::size_t pieces, std::size_t passes_of_piece) {
  constexpr std::size_t kMaxPasses = 100'000'000;
  const std::size_t max_pieces = kMaxPasses / passes_of_piece;
  if (pieces > max_pieces)
    throw std::runtime_error(fmt::format("--twin-pieces: {} pieces of text x {} passes are too many; at most {} pieces",
                                         pieces, passes_of_piece, max_pieces));
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

std::string settings_json(const TextSources& sources, const char* score_func) {
  nlohmann::json settings{{"score_func", score_func}, {kLength, sources.length}};
  for (const std::string& path : sources.texts) settings[kTexts].push_back(absolute_path(path));
  for (const std::string& path : sources.token_ids) settings[kTokenIds].push_back(absolute_path(path));
  if (!sources.prompt.empty()) settings[kPrompt] = sources.prompt;
  return settings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<TextSources> text_sources_in(const LogSettings& settings) {
  TextSources sources;
  try {
    sources.texts = paths_in(settings, kTexts);
    sources.token_ids = paths_in(settings, kTokenIds);
    if (const auto found = settings.find(kLength); found != settings.end()) sources.length = std::stoi(found->second);
  } catch (const std::exception&) {  // a list is not JSON, or the length is not a number
    return std::nullopt;
  }
  if (const auto found = settings.find(kPrompt); found != settings.end()) sources.prompt = found->second;
  const bool has_sources = !sources.texts.empty() || !sources.token_ids.empty() || !sources.prompt.empty();
  return has_sources && sources.length >= 2 ? std::optional(sources) : std::nullopt;
}

}  // namespace moescope
