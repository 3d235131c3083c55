#include "core/checkpoints/labelled_texts.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "core/io/input_file.h"
#include "core/io/text_escape.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error) throw std::runtime_error(folder.string() + ": " + error.message());
  std::ranges::sort(entries);
  return entries;
}

void add_file(const fs::path& path, const std::string& domain, const Tokenizer& tokenizer,
              std::vector<LabelledText>& texts) {
  const std::string text = read_file(path.string(), kLargestText, "text");
  if (text.empty() || text.find('\0') != std::string::npos) return;
  texts.push_back({domain, tokenizer.encode(text)});
}

}  // namespace

std::vector<LabelledText> read_texts(const std::string& path, const Tokenizer& tokenizer) {
  std::vector<LabelledText> texts;
  if (!fs::is_directory(path)) {
    add_file(path, fs::path(path).stem().string(), tokenizer, texts);
  } else {
    for (const fs::path& entry : entries_of(path)) {
      const std::string domain = entry.stem().string();
      if (fs::is_regular_file(entry)) add_file(entry, domain, tokenizer, texts);
      // Links to folders are not followed: they could form a cycle.
      if (!fs::is_directory(fs::symlink_status(entry))) continue;
      for (const fs::path& file : entries_of(entry))
        if (fs::is_regular_file(file)) add_file(file, domain, tokenizer, texts);
    }
  }
  if (texts.empty()) throw std::runtime_error(path + ": holds no text");
  return texts;
}

LabelledText read_token_ids(const std::string& path) {
  const std::string text = read_file(path, kLargestText, "file of token ids");
  LabelledText read{fs::path(path).stem().string(), {}};
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error == std::errc::result_out_of_range) throw std::runtime_error(path + ": holds a number beyond 2^31");
    if (error == std::errc()) {
      read.ids.push_back(id);
      at = next;
    } else if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
    } else {
      throw std::runtime_error(path + ": holds '" + printable(std::string(1, *at)) +
                               "'; allowed: whole numbers between blanks and commas");
    }
  }
  return read;
}

std::vector<TextPiece> pieces_of(const std::vector<LabelledText>& texts, const ComparedTexts& which) {
  const auto length = static_cast<std::size_t>(which.length), most = static_cast<std::size_t>(which.pieces);
  std::vector<TextPiece> pieces;
  for (std::size_t first = 0, left = texts.size(); left > 0; first += length) {
    left = 0;
    for (std::size_t text = 0; text < texts.size() && pieces.size() < most; ++text) {
      const std::span<const std::int32_t> ids(texts[text].ids);
      if (first + 2 > ids.size()) continue;
      pieces.push_back({text, ids.subspan(first, std::min(length, ids.size() - first))});
      ++left;
    }
  }
  if (pieces.empty()) throw std::runtime_error("no text has two tokens");
  return pieces;
}

}  // namespace moescope
