#include <charconv>
#include <optional>
#include <utility>

#include "core/files/text/text_encoding.h"
#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/pattern.h"
#include "core/model/tokenizer/text_steps.h"

namespace moescope {
namespace {

constexpr const char* kReplacement = "\uFFFD";

std::string joined(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

void decode_byte_level(std::vector<std::string>& tokens, bool is_single, TextBudget&) {
  for (std::string& token : tokens)
    if (std::string bytes; append_as_bytes(bytes, token)) token = std::move(bytes);
  if (!is_single) tokens = {valid_utf8(joined(tokens))};
}

std::optional<char> byte_of(std::string_view token) {  // returns 0x41 for "<0x41>"
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned byte = 0;
  const auto read = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return read.ptr == token.data() + 5 ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

// Joins the bytes of a run of byte tokens. Unless `alone`, a run that is not UTF-8 becomes one replacement character
// for each byte.
void decode_byte_fallback(std::vector<std::string>& tokens, bool is_single, TextBudget&) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_single || not_utf8_at(bytes) == std::string_view::npos)
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), kReplacement);
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

void replace_all(std::string& text, const std::string& what, const char* with) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(what, done)) != std::string::npos; done = at + what.size())
    out.append(text, done, at - done).append(with);
  text = out.append(text, done);
}

TokenDecoder decode_metaspace(const MetaspaceRules& rules) {
  return [rules](std::vector<std::string>& tokens, bool is_single, TextBudget&) {
    const bool drops_first = !is_single && rules.prepend != MetaspaceRules::Prepend::never;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], rules.replacement, i == 0 && drops_first ? "" : " ");
  };
}

void fuse(std::vector<std::string>& tokens, bool, TextBudget&) {
  tokens = {joined(tokens)};
}

TokenDecoder decode_replace(const JsonPlace& place) {
  return [replaced = Replacement(place)](std::vector<std::string>& tokens, bool, TextBudget& budget) {
    std::size_t bytes = 0;
    for (std::string& token : tokens) {
      token = replaced(token, budget);
      bytes += token.size();
      budget.require_size(bytes);
    }
  };
}

// Removes the character `content` from every token, up to `start` times at its beginning and `stop` times at its end.
TokenDecoder decode_strip(const JsonPlace& place) {
  constexpr std::int64_t kMaxStripped = 1'000'000;
  const std::string content(place.at("content").text());
  const std::int64_t start = place.at("start").whole(0, kMaxStripped), stop = place.at("stop").whole(0, kMaxStripped);
  if (content.empty()) place.at("content").fail("is empty");
  return [content, start, stop](std::vector<std::string>& tokens, bool is_single, TextBudget&) {
    if (is_single) return;
    for (std::string& token : tokens) {
      std::string_view stripped = token;
      for (std::int64_t i = 0; i < start && stripped.starts_with(content); ++i) stripped.remove_prefix(content.size());
      for (std::int64_t i = 0; i < stop && stripped.ends_with(content); ++i) stripped.remove_suffix(content.size());
      token = std::string(stripped);
    }
  };
}

// Replaces the suffix that marks the end of a word by a blank, and removes it from the last token of a text.
TokenDecoder decode_bpe(const JsonPlace& place) {
  const std::string suffix(place.text());
  if (suffix.empty()) place.fail("is empty");
  return [suffix](std::vector<std::string>& tokens, bool is_single, TextBudget&) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix, is_single || i + 1 < tokens.size() ? " " : "");
  };
}

}  // namespace

TokenDecoder read_decoder(const JsonPlace& place) {
  using Place = const JsonPlace&;
  return read_kind<TokenDecoder>(
      place, {{"ByteLevel", [](Place) { return TokenDecoder(decode_byte_level); }},
              {"ByteFallback", [](Place) { return TokenDecoder(decode_byte_fallback); }},
              {"Fuse", [](Place) { return TokenDecoder(fuse); }},
              {"Metaspace", [](Place rules) { return decode_metaspace(read_metaspace(rules)); }},
              {"Replace", decode_replace},
              {"Strip", decode_strip},
              {"BPEDecoder", [](Place bpe) { return decode_bpe(bpe.at("suffix")); }},
              {"Sequence", [](Place steps) { return read_steps(steps.at("decoders"), read_decoder); }}});
}

}  // namespace moescope
