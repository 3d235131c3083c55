#include "core/tokenizer/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/characters.h"
#include "core/tokenizer/charsmap.h"
#include "core/tokenizer/read_pattern.h"

namespace moescope {
namespace {

// Base of normalizers that treat every part of a text as the whole text.
class Rewriter : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    if (text.start_bytes > 0) text.start_bytes = rewritten_start(text.text.substr(0, text.start_bytes)).size();
    text.text = rewritten(text.text);
  }

 private:
  virtual std::string rewritten(const std::string& text) const = 0;
  virtual std::string rewritten_start(const std::string& start) const { return rewritten(start); }
};

// NFC, NFD, NFKC and NFKD.
class UnicodeForm : public Rewriter {
 public:
  using Instance = const icu::Normalizer2* (*)(UErrorCode&);
  explicit UnicodeForm(Instance instance) {
    UErrorCode error = U_ZERO_ERROR;
    form_ = instance(error);
    check(error);
  }

 private:
  std::string rewritten(const std::string& text) const override {
    UErrorCode error = U_ZERO_ERROR;
    std::string out;
    const auto bytes = static_cast<std::int32_t>(text.size());
    icu::StringByteSink<std::string> sink(&out, bytes);
    form_->normalizeUTF8(0, icu::StringPiece(text.data(), bytes), sink, nullptr, error);
    check(error);
    return out;
  }
  static void check(UErrorCode error) {
    if (U_FAILURE(error)) throw std::runtime_error(std::string("ICU cannot normalize: ") + u_errorName(error));
  }
  const icu::Normalizer2* form_ = nullptr;
};

class Lowercase : public Rewriter {
  std::string rewritten(const std::string& text) const override {
    std::string out;
    for (std::size_t at = 0; at < text.size();) append_lower(out, next_character(text, at));
    return out;
  }
};

class StripAccents : public Rewriter {
  std::string rewritten(const std::string& text) const override {
    std::string out;
    for (std::size_t at = 0; at < text.size();)
      if (const char32_t c = next_character(text, at); !is_combining_mark(c)) append_character(out, c);
    return out;
  }
};

class StripBlanks : public Rewriter {
 public:
  StripBlanks(bool left, bool right) : left_(left), right_(right) {}

 private:
  std::string rewritten(const std::string& text) const override { return stripped(text, left_, right_); }
  std::string rewritten_start(const std::string& start) const override { return stripped(start, left_, false); }
  static std::string stripped(const std::string& text, bool left, bool right) {
    std::size_t begin = 0, end = text.size();
    for (std::size_t at = begin; left && at < end && is_white_space(next_character(text, at));) begin = at;
    for (std::size_t at = end; right && at > begin && is_white_space(previous_character(text, at));) end = at;
    return text.substr(begin, end - begin);
  }
  bool left_, right_;
};

class Replace : public Rewriter {
 public:
  Replace(Pattern pattern, std::string_view content) : pattern_(std::move(pattern)), content_(content) {}

 private:
  std::string rewritten(const std::string& text) const override {
    Pattern::Finder finder(pattern_);
    std::string out;
    for (const Match& match : finder.find(text))
      match.matches ? out += content_ : out.append(text, match.begin, match.end - match.begin);
    return out;
  }
  Pattern pattern_;
  std::string content_;
};

class Prepend : public Rewriter {
 public:
  explicit Prepend(std::string_view text) : prepended_(text) {}

 private:
  std::string rewritten(const std::string& text) const override { return text.empty() ? text : prepended_ + text; }
  std::string prepended_;
};

class BytesAsCharacters : public Rewriter {
  std::string rewritten(const std::string& text) const override {
    std::string out;
    append_as_characters(out, text);
    return out;
  }
};

class Precompiled : public Rewriter {
 public:
  explicit Precompiled(const JsonPlace& place) : map_(place) {}

 private:
  std::string rewritten(const std::string& text) const override { return map_.mapped(text); }
  Charsmap map_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(const JsonPlace& place) {
    constexpr std::size_t kMost = 100;
    for (const JsonPlace& step : place.items(kMost)) steps_.push_back(read_normalizer(step));
  }
  void apply(NormalizedText& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonPlace& place) {
  switch (place.at("type").one_of({"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Replace",
                                   "Prepend", "ByteLevel", "Precompiled", "Sequence"})) {
    case 0:
      return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFCInstance);
    case 1:
      return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFDInstance);
    case 2:
      return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFKCInstance);
    case 3:
      return std::make_unique<UnicodeForm>(icu::Normalizer2::getNFKDInstance);
    case 4:
      return std::make_unique<Lowercase>();
    case 5:
      return std::make_unique<StripAccents>();
    case 6:
      return std::make_unique<StripBlanks>(place.at("strip_left").flag(), place.at("strip_right").flag());
    case 7:
      return std::make_unique<Replace>(read_pattern(place.at("pattern")), place.at("content").text());
    case 8:
      return std::make_unique<Prepend>(place.at("prepend").text());
    case 9:
      return std::make_unique<BytesAsCharacters>();
    case 10:
      return std::make_unique<Precompiled>(place.at("precompiled_charsmap"));
    default:
      return std::make_unique<NormalizerSequence>(place.at("normalizers"));
  }
}

}  // namespace moescope
