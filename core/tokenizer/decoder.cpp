#include "core/tokenizer/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/io/text_encoding.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/characters.h"
#include "core/tokenizer/metaspace.h"
#include "core/tokenizer/read_pattern.h"

namespace moescope {
namespace {

constexpr const char* kReplacement = "\uFFFD";

std::string joined(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

class DecodeByteLevel : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) apply_alone(token);
    tokens = {valid_utf8(joined(tokens))};
  }
  void apply_alone(std::string& token) const override {
    std::string bytes;
    if (append_as_bytes(bytes, token)) token = std::move(bytes);
  }
};

class DecodeByteFallback : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        bytes += *byte;
        continue;
      }
      flush(bytes, out);
      out.push_back(std::move(token));
    }
    flush(bytes, out);
    tokens = std::move(out);
  }
  void apply_alone(std::string& token) const override {
    if (const auto byte = byte_of(token)) token.assign(1, *byte);
  }

 private:
  static std::optional<char> byte_of(std::string_view token) {  // 0x41 of "<0x41>"
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    unsigned byte = 0;
    const auto read = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    return read.ptr == token.data() + 5 ? std::optional(static_cast<char>(byte)) : std::nullopt;
  }
  // A run of bytes that is not UTF-8 becomes one replacement character for each byte.
  static void flush(std::string& bytes, std::vector<std::string>& out) {
    if (bytes.empty()) return;
    if (not_utf8_at(bytes) == std::string_view::npos)
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), kReplacement);
    bytes.clear();
  }
};

class DecodeFuse : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override { tokens = {joined(tokens)}; }
  void apply_alone(std::string&) const override {}
};

void replace_all(std::string& text, const std::string& what, const char* with) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(what, done)) != std::string::npos; done = at + what.size())
    out.append(text, done, at - done).append(with);
  text = out.append(text, done);
}

class DecodeMetaspace : public TokenDecoder {
 public:
  explicit DecodeMetaspace(MetaspaceRules rules) : rules_(std::move(rules)) {}
  void apply(std::vector<std::string>& tokens) const override {
    const bool drops_first = rules_.prepend != MetaspaceRules::Prepend::never;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], rules_.replacement, i == 0 && drops_first ? "" : " ");
  }
  void apply_alone(std::string& token) const override { replace_all(token, rules_.replacement, " "); }

 private:
  MetaspaceRules rules_;
};

class DecodeReplace : public TokenDecoder {
 public:
  DecodeReplace(Pattern pattern, std::string_view content) : pattern_(std::move(pattern)), content_(content) {}
  void apply(std::vector<std::string>& tokens) const override {
    Pattern::Finder finder(pattern_);
    for (std::string& token : tokens) replace(finder, token);
  }
  void apply_alone(std::string& token) const override {
    Pattern::Finder finder(pattern_);
    replace(finder, token);
  }

 private:
  void replace(Pattern::Finder& finder, std::string& token) const {
    std::string out;
    for (const Match& match : finder.find(token))
      match.matches ? out += content_ : out.append(token, match.begin, match.end - match.begin);
    token = std::move(out);
  }
  Pattern pattern_;
  std::string content_;
};

// Removes up to a number of one character at the beginning and at the end of every token.
class DecodeStrip : public TokenDecoder {
 public:
  explicit DecodeStrip(const JsonPlace& place)
      : content_(place.at("content").text()),
        start_(place.at("start").whole(0, kMost)),
        stop_(place.at("stop").whole(0, kMost)) {
    if (content_.empty()) place.at("content").fail("is empty");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::size_t begin = 0, end = token.size();
      for (std::int64_t i = 0; i < start_ && std::string_view(token).substr(begin).starts_with(content_); ++i)
        begin += content_.size();
      for (std::int64_t i = 0; i < stop_ && end > begin && std::string_view(token).substr(0, end).ends_with(content_);
           ++i)
        end -= content_.size();
      token = token.substr(begin, std::max(begin, end) - begin);
    }
  }
  void apply_alone(std::string&) const override {}

 private:
  static constexpr std::int64_t kMost = 1'000'000;
  std::string content_;
  std::int64_t start_, stop_;
};

// Replaces the marks at ends of words by blanks, except the last one.
class DecodeBpe : public TokenDecoder {
 public:
  explicit DecodeBpe(const JsonPlace& suffix) : suffix_(suffix.text()) {
    if (suffix_.empty()) suffix.fail("is empty");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix_, i + 1 < tokens.size() ? " " : "");
  }
  void apply_alone(std::string& token) const override { replace_all(token, suffix_, " "); }

 private:
  std::string suffix_;
};

class DecodeSequence : public TokenDecoder {
 public:
  explicit DecodeSequence(const JsonPlace& place) {
    constexpr std::size_t kMost = 100;
    for (const JsonPlace& step : place.items(kMost)) steps_.push_back(read_decoder(step));
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (const auto& step : steps_) step->apply(tokens);
  }
  void apply_alone(std::string& token) const override {
    for (const auto& step : steps_) step->apply_alone(token);
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> steps_;
};

}  // namespace

std::unique_ptr<TokenDecoder> read_decoder(const JsonPlace& place) {
  switch (place.at("type").one_of(
      {"ByteLevel", "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip", "BPEDecoder", "Sequence"})) {
    case 0:
      return std::make_unique<DecodeByteLevel>();
    case 1:
      return std::make_unique<DecodeByteFallback>();
    case 2:
      return std::make_unique<DecodeFuse>();
    case 3:
      return std::make_unique<DecodeMetaspace>(read_metaspace(place));
    case 4:
      return std::make_unique<DecodeReplace>(read_pattern(place.at("pattern")), place.at("content").text());
    case 5:
      return std::make_unique<DecodeStrip>(place);
    case 6:
      return std::make_unique<DecodeBpe>(place.at("suffix"));
    default:
      return std::make_unique<DecodeSequence>(place.at("decoders"));
  }
}

}  // namespace moescope
