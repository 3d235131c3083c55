// What texts are cut at or replaced: a literal text, or a regular expression, matched by ICU.
//
// Expressions of `tokenizer.json` are written for Oniguruma in Ruby's syntax. Where ICU reads them otherwise they are
// rewritten: ^ and $ are the ends of lines, only "\n" ends one, (?m) lets the dot match it, \h is a hexadecimal digit,
// \w has no joiners, \b stands where \w begins or ends, and {n,m}+ repeats and is not possessive.
#pragma once

#include <unicode/uversion.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

U_NAMESPACE_BEGIN
class RegexMatcher;
class RegexPattern;
U_NAMESPACE_END

namespace moescope {

// Bytes of a text that match, or that lie between matches.
struct Match {
  std::size_t begin = 0, end = 0;
  bool matches = false;
};

class Pattern {
 public:
  static Pattern literal(std::string_view text);
  // Throws std::invalid_argument: what ICU finds wrong with the expression.
  static Pattern regex(std::string_view expression);

  // Finds matches in one text after the other. Not for several threads at a time.
  class Finder {
   public:
    explicit Finder(const Pattern& pattern);
    ~Finder();
    // All of the text (UTF-8) in order, matches and what lies between; valid until the next call. An empty match cuts
    // and takes nothing; of an empty text there are none. Throws std::runtime_error where an expression takes
    // more steps than a text of that length should need.
    const std::vector<Match>& find(std::string_view text);

   private:
    void find_literal(std::string_view text);
    void find_regex(std::string_view text);
    void add(std::size_t begin, std::size_t end);
    const Pattern& pattern_;
    std::unique_ptr<icu::RegexMatcher> matcher_;
    std::vector<Match> found_;
    std::size_t done_ = 0;  // bytes in found_
  };

 private:
  std::string literal_;
  std::shared_ptr<const icu::RegexPattern> regex_;  // nullptr: the literal text
};

}  // namespace moescope
