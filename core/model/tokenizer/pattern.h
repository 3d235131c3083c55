// A pattern at which texts are cut or that is replaced: a literal text, or a regular expression, matched by ICU.
//
// Expressions of tokenizer.json are written for Oniguruma in Ruby's syntax. They are rewritten where ICU reads them
// differently. In Oniguruma ^ and $ match the ends of lines, only "\n" ends a line, (?m) lets the dot match "\n", \h is
// a hexadecimal digit, \w has no joiners, \b is the beginning or end of a run of \w, and the + of {n,m}+ repeats
// {n,m} and does not make it possessive.
#pragma once

#include <unicode/uversion.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/text_steps.h"

U_NAMESPACE_BEGIN
class RegexMatcher;
class RegexPattern;
U_NAMESPACE_END

namespace moescope {

// A part of a text in bytes: a match, or the text between two matches.
struct Match {
  std::size_t begin = 0, end = 0;
  bool matches = false;
};

class Pattern {
 public:
  static Pattern literal(std::string_view text);
  // Throws std::invalid_argument with ICU's error.
  static Pattern regex(std::string_view expression);

  // Finds matches in texts, one text at a time. Must not be used by several threads at a time.
  class Finder {
   public:
    explicit Finder(const Pattern& pattern);
    ~Finder();
    // Returns the matches in `text` (UTF-8) and the parts between them, in order; valid until the next call. An empty
    // match cuts the text without taking a character. An empty text has no parts. Throws what TextBudget throws.
    const std::vector<Match>& find(std::string_view text, TextBudget& budget);

   private:
    void find_literal(std::string_view text);
    void find_regex(std::string_view text, TextBudget& budget);
    void add(std::size_t begin, std::size_t end);
    const Pattern& pattern_;
    std::unique_ptr<icu::RegexMatcher> matcher_;
    std::vector<Match> found_;
    std::size_t done_ = 0;  // bytes of the text that found_ covers
  };

 private:
  std::string literal_;
  std::shared_ptr<const icu::RegexPattern> regex_;  // nullptr for a literal text
  std::size_t length_ = 0;                          // of the expression, bytes
};

// Reads {"String": "text"} or {"Regex": "expression"}. Throws Unreadable naming the key.
Pattern read_pattern(const JsonPlace& place);

// Replaces every match of the step's "pattern" by its "content". The constructor throws Unreadable naming the key.
class Replacement {
 public:
  explicit Replacement(const JsonPlace& place);
  std::string operator()(std::string_view text, TextBudget& budget) const;  // throws what TextBudget throws

 private:
  Pattern pattern_;
  std::string content_;
};

}  // namespace moescope
