#include "core/logs/lines/python_dict.h"

#include <algorithm>

#include "core/files/text/json_text.h"
#include "core/files/unreadable.h"
#include "core/logs/lines/printed_number.h"

namespace moescope {

namespace {

constexpr std::size_t kLongestDict = std::size_t{1} << 20;
constexpr std::string_view kSpaces = " \t\r\n";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Writes JSON while it reads Python. Each function returns false if the text does not match.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}
  bool read_dict(int depth) {
    return take('{') && read_list('}', [&] {
             std::string key;
             if (!read_string(key) && !read_whole_number(key)) return false;
             if (!take(':')) return false;
             json_ += json_string(key) + ':';
             return read_value(depth);
           });
  }
  std::string json() && { return std::move(json_); }
  std::size_t position() const { return at_; }

 private:
  // Reads the entries up to `close`; the opening bracket is already read.
  template <class Read>
  bool read_list(char close, Read read) {
    json_ += close == '}' ? '{' : '[';
    for (bool first = true; !take(close); first = false) {
      if (!first && !take(',')) return false;
      if (!first && take(close)) break;
      if (!first) json_ += ',';
      if (!read()) return false;
    }
    json_ += close == '}' ? '}' : ']';
    return true;
  }
  bool read_value(int depth) {
    if (depth > kMaxNesting) return false;
    skip_spaces();
    if (at_ >= text_.size()) return false;
    const char c = text_[at_];
    if (c == '{') return read_dict(depth + 1);
    if (c == '[' || c == '(') {
      ++at_;
      return read_list(c == '[' ? ']' : ')', [&] { return read_value(depth + 1); });
    }
    if (c == '\'' || c == '"') {
      std::string text;
      if (!read_string(text)) return false;
      const auto number = may_have_decimal_comma(text) ? std::nullopt : printed_number(text);
      json_ += number ? json_number(*number) : json_string(text);
      return true;
    }
    return read_word(depth);
  }
  // Reads a number, None, True, False, nan, or a number in a type's name: np.float64(2.5), tensor(2.5,
  // device='cuda:0').
  bool read_word(int depth) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_name_character(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return false;
    if (take('(')) {
      if (!read_value(depth + 1)) return false;
      const std::size_t end = text_.find(')', at_);
      if (end == std::string_view::npos) return false;
      at_ = end + 1;
      return true;
    }
    const auto number = printed_number(word);
    std::string value = number ? json_number(*number) : json_string(word);
    if (word == "True" || word == "true") value = "true";
    if (word == "False" || word == "false") value = "false";
    if (word == "None" || word == "null") value = "null";
    json_ += value;
    return true;
  }
  bool read_whole_number(std::string& out) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    out = text_.substr(begin, at_ - begin);
    return !out.empty();
  }
  bool read_string(std::string& out) {
    skip_spaces();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const char quote = text_[at_++];
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && ++at_ == text_.size()) return false;
      out += text_[at_];
    }
    return take(quote);
  }
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(kSpaces, at_), text_.size()); }
  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string json_;
};

}  // namespace

std::optional<PythonDict> read_python_dict(std::string_view text) {
  DictReader reader(text.substr(0, kLongestDict));
  if (!reader.read_dict(0)) return std::nullopt;
  const std::size_t size = reader.position();
  return PythonDict{std::move(reader).json(), size};
}

}  // namespace moescope
