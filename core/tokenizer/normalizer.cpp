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

// NFC, NFD, NFKC and NFKD.
class UnicodeForm : public Normalizer {
 public:
  using Instance = const icu::Normalizer2* (*)(UErrorCode&);
  explicit UnicodeForm(Instance instance) {
    UErrorCode error = U_ZERO_ERROR;
    form_ = instance(error);
    check(error);
  }
  void apply(NormalizedText& text) const override {
    UErrorCode error = U_ZERO_ERROR;
    std::string out;
    icu::StringByteSink<std::string> sink(&out, static_cast<std::int32_t>(text.text.size()));
    form_->normalizeUTF8(0, icu::StringPiece(text.text.data(), static_cast<std::int32_t>(text.text.size())), sink,
                         nullptr, error);
    check(error);
    text.text = std::move(out);
  }

 private:
  static void check(UErrorCode error) {
    if (U_FAILURE(error)) throw std::runtime_error(std::string("ICU cannot normalize: ") + u_errorName(error));
  }
  const icu::Normalizer2* form_ = nullptr;
};

class Lowercase : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    std::string out;
    for (std::size_t at = 0; at < text.text.size();) append_lower(out, next_character(text.text, at));
    text.text = std::move(out);
  }
};

class StripAccents : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    std::string out;
    for (std::size_t at = 0; at < text.text.size();) {
      const char32_t c = next_character(text.text, at);
      if (!is_combining_mark(c))
        append_character(out, c);
      else if (out.empty())
        text.at_start = false;
    }
    text.text = std::move(out);
  }
};

class StripBlanks : public Normalizer {
 public:
  StripBlanks(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text) const override {
    std::size_t begin = 0, end = text.text.size();
    for (std::size_t at = begin; left_ && at < end && is_white_space(next_character(text.text, at));) begin = at;
    for (std::size_t at = end; right_ && at > begin && is_white_space(previous_character(text.text, at));) end = at;
    if (begin > 0) text.at_start = false;
    text.text = text.text.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string_view content) : pattern_(std::move(pattern)), content_(content) {}
  void apply(NormalizedText& text) const override {
    Pattern::Finder finder(pattern_);
    std::string out;
    for (const Match& match : finder.find(text.text)) {
      if (match.matches && match.begin == 0 && match.end > 0 && content_.empty()) text.at_start = false;
      out += match.matches ? std::string_view(content_)
                           : std::string_view(text.text).substr(match.begin, match.end - match.begin);
    }
    text.text = std::move(out);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string_view text) : prepended_(text) {}
  void apply(NormalizedText& text) const override {
    if (!text.text.empty()) text.text.insert(0, prepended_);
  }

 private:
  std::string prepended_;
};

class BytesAsCharacters : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    std::string out;
    append_as_characters(out, text.text);
    text.text = std::move(out);
  }
};

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(const JsonPlace& place) : map_(place) {}
  void apply(NormalizedText& text) const override { text.text = map_.mapped(text.text); }

 private:
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
