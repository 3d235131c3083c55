#include "core/model/tokenizer/pattern.h"

#include <fmt/core.h>
#include <unicode/regex.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "core/numerics/index.h"

namespace moescope {
namespace {

constexpr std::size_t kLongestExpression = 20'000;  // bytes; published expressions have less than 1,000
constexpr std::size_t kStepsOfATick = 10'000;
constexpr std::size_t kLongestText = std::size_t{1} << 30;  // UTF-16 units are counted in 31 bits

icu::UnicodeString utf16(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), to_int(text.size())));
}

// Rewrites an expression of Oniguruma for ICU (pattern.h).
class ForIcu {
 public:
  explicit ForIcu(std::string_view expression) : from_(expression) {}

  std::string rewritten() {
    while (at_ < from_.size()) {
      if (from_[at_] == '\\' && at_ + 1 < from_.size())
        escape();
      else if (in_set_ == 0 && from_.substr(at_, 2) == "(?")
        flags();
      else if (in_set_ == 0 && from_[at_] == '{')
        repeat();
      else
        other();
    }
    return std::move(to_);
  }

 private:
  void escape() {
    // Outside of sets, Oniguruma's word characters include the numbers of Latin-1 (superscripts and fractions).
    const std::string in_set = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    const std::string letters = in_set_ > 0 ? in_set : in_set + "\u00b2\u00b3\u00b9\u00bc-\u00be";
    const std::string word = "[" + letters + "]";
    const char letter = from_[at_ + 1];
    at_ += 2;
    if (letter == 'h')
      to_ += "[0-9a-fA-F]";
    else if (letter == 'H')
      to_ += "[^0-9a-fA-F]";
    else if (letter == 'w')
      to_ += word;
    else if (letter == 'W')
      to_ += "[^" + letters + "]";
    else if (letter == 'b' && in_set_ == 0)
      to_ += "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
    else if (letter == 'B' && in_set_ == 0)
      to_ += "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
    else
      (to_ += '\\') += letter;
  }

  // Reads "(?m:" and "(?i-m)". The flag m of Ruby is s in other syntaxes.
  void flags() {
    to_ += "(?";
    at_ += 2;
    const std::size_t end = from_.find_first_not_of("imx-", at_);
    if (end == std::string_view::npos || (from_[end] != ':' && from_[end] != ')'))
      return;  // a lookahead or a named group
    for (; at_ < end; ++at_) to_ += from_[at_] == 'm' ? 's' : from_[at_];
  }

  // {n,m}+ with n <= 1 matches n or more repetitions, as many as there are.
  void repeat() {
    const std::size_t end = from_.find('}', at_);
    const std::string_view inside = from_.substr(at_ + 1, end - at_ - 1);
    const std::size_t comma = inside.find(',');
    if (end == std::string_view::npos || comma == std::string_view::npos || from_.substr(end + 1, 1) != "+")
      return other();
    int min_count = 0;
    const auto read = std::from_chars(inside.data(), inside.data() + comma, min_count);
    if (read.ptr != inside.data() + comma || min_count > 1)
      throw std::invalid_argument("{" + std::string(inside) + "}+ is not read here; {0,n}+ and {1,n}+ are");
    to_ += fmt::format("{{{},}}", min_count);
    at_ = end + 2;
  }

  void other() {
    if (from_[at_] == '[') ++in_set_;
    if (from_[at_] == ']' && in_set_ > 0) --in_set_;
    to_ += from_[at_++];
  }

  std::string_view from_;
  std::size_t at_ = 0;
  int in_set_ = 0;  // number of open brackets
  std::string to_;
};

// Converts ascending positions in UTF-16 to positions in UTF-8.
class Utf8Places {
 public:
  explicit Utf8Places(std::string_view text) : text_(text) {}
  std::size_t byte_place(std::int32_t utf16_place) {
    while (utf16_ < utf16_place && utf8_ < text_.size()) {
      const auto lead = static_cast<std::uint8_t>(text_[utf8_]);
      const int bytes = U8_COUNT_TRAIL_BYTES_UNSAFE(lead) + 1;
      utf16_ += bytes == 4 ? 2 : 1;
      utf8_ += bytes;
    }
    return std::min(utf8_, text_.size());
  }

 private:
  std::string_view text_;
  std::size_t utf8_ = 0;
  std::int32_t utf16_ = 0;
};

// ICU calls this after each tick with the ticks since the text was set.
UBool count_ticks(const void* context, std::int32_t ticks) {
  *const_cast<std::int32_t*>(static_cast<const std::int32_t*>(context)) = ticks;
  return true;
}

}  // namespace

Pattern Pattern::literal(std::string_view text) {
  if (text.empty()) return regex("(?:)");  // matches between any two characters
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

Pattern Pattern::regex(std::string_view expression) {
  if (expression.size() > kLongestExpression)
    throw std::invalid_argument(fmt::format("has more than {} bytes", kLongestExpression));
  UParseError place;
  UErrorCode error = U_ZERO_ERROR;
  Pattern pattern;
  pattern.length_ = expression.size();
  pattern.regex_.reset(icu::RegexPattern::compile(utf16(ForIcu(expression).rewritten()),
                                                  UREGEX_MULTILINE | UREGEX_UNIX_LINES, place, error));
  if (U_FAILURE(error))
    throw std::invalid_argument(fmt::format("{} near character {}", u_errorName(error), place.offset + 1));
  return pattern;
}

Pattern::Finder::Finder(const Pattern& pattern) : pattern_(pattern) {
  if (!pattern.regex_) return;
  UErrorCode error = U_ZERO_ERROR;
  matcher_.reset(pattern.regex_->matcher(error));
  if (U_FAILURE(error)) throw std::runtime_error(u_errorName(error));
}

Pattern::Finder::~Finder() = default;

void Pattern::Finder::add(std::size_t begin, std::size_t end) {
  if (begin > done_) found_.push_back({done_, begin, false});
  found_.push_back({begin, end, true});
  done_ = end;
}

void Pattern::Finder::find_literal(std::string_view text) {
  const std::string& literal = pattern_.literal_;
  for (std::size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at += literal.size())
    add(at, at + literal.size());
}

void Pattern::Finder::find_regex(std::string_view text, TextBudget& budget) {
  if (text.size() > kLongestText) throw std::runtime_error("a text of more than 1 GiB cannot be cut into tokens");
  const icu::UnicodeString units = utf16(text);
  Utf8Places places(text);
  UErrorCode error = U_ZERO_ERROR;
  matcher_->reset(units);
  // Less than a tick is not counted, so that a part of a tick that grows with text and expression is spent beforehand.
  budget.spend(std::min(kStepsOfATick, (text.size() + 1) * pattern_.length_));
  std::int32_t ticks = 0;
  constexpr std::size_t kMaxTicks = std::size_t{1} << 30;
  matcher_->setTimeLimit(to_int(std::min(kMaxTicks, budget.steps_left() / kStepsOfATick + 1)), error);
  matcher_->setMatchCallback(count_ticks, &ticks, error);
  std::int32_t last_end = -1;
  while (matcher_->find(error)) {
    const std::int32_t begin = matcher_->start(error), end = matcher_->end(error);
    if (begin == end && begin == last_end) continue;  // an empty match right after a match
    last_end = end;
    const std::size_t begin_byte = places.byte_place(begin);
    add(begin_byte, places.byte_place(end));
  }
  if (U_FAILURE(error))
    throw std::runtime_error(std::string("the regular expression takes too long on this text (") + u_errorName(error) +
                             ")");
  budget.spend(kStepsOfATick * ticks);
}

const std::vector<Match>& Pattern::Finder::find(std::string_view text, TextBudget& budget) {
  found_.clear();
  done_ = 0;
  if (text.empty()) return found_;
  matcher_ ? find_regex(text, budget) : find_literal(text);
  if (done_ < text.size()) found_.push_back({done_, text.size(), false});
  return found_;
}

Pattern read_pattern(const JsonPlace& place) {
  if (const auto literal = place.find("String")) return Pattern::literal(literal->text());
  const JsonPlace expression = place.at("Regex");
  try {
    return Pattern::regex(expression.text());
  } catch (const std::invalid_argument& error) {
    expression.fail(error.what());
  }
}

Replacement::Replacement(const JsonPlace& place)
    : pattern_(read_pattern(place.at("pattern"))), content_(place.at("content").text()) {}

std::string Replacement::operator()(std::string_view text, TextBudget& budget) const {
  Pattern::Finder finder(pattern_);
  std::string out;
  for (const Match& match : finder.find(text, budget)) {
    match.matches ? out += content_ : out.append(text, match.begin, match.end - match.begin);
    budget.require_size(out.size());
  }
  return out;
}

}  // namespace moescope
