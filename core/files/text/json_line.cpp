#include "core/files/text/json_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <utility>

#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

constexpr std::size_t kMinCapacity = std::size_t{64} << 10;
constexpr std::size_t kLargestKept = std::size_t{8} << 20;  // bytes of a line; the parser takes about 14 times as much

// Writes JSON while it reads values as Python prints them (a list of pairs as the dict whose items they are), or JSON
// with NaN and Infinity. Each function returns false if the text does not match.
class LooseReader {
 public:
  LooseReader(std::string_view text, bool is_python) : text_(text), is_python_(is_python) {}
  bool read_value(int depth = 0) {
    const char c = next();
    if (depth > kMaxNesting) return false;
    const auto read_member = [&](char between) {
      return read_key() && take(between) && add(":") && read_value(depth + 1);
    };
    if (c == '{') return read_list('}', true, [&] { return read_member(':'); });
    if (is_python_ && text_.substr(at_).starts_with("[(")) {
      const std::size_t at = at_, size = json_.size();
      if (read_list(']', true, [&] { return take('(') && read_member(',') && take(')'); })) return true;
      at_ = at;  // a list of other tuples
      json_.resize(size);
    }
    if (c == '[' || (c == '(' && is_python_))
      return read_list(c == '[' ? ']' : ')', false, [&] { return read_value(depth + 1); });
    return read_string() || read_word(depth);
  }
  LooseJson json() && { return {std::move(json_), at_}; }

 private:
  bool add(std::string_view text) {
    json_ += text;
    return true;
  }
  // Reads the entries of a list or an object.
  template <class Read>
  bool read_list(char close, bool is_object, Read read) {
    ++at_;
    add(is_object ? "{" : "[");
    for (bool is_first = true; !take(close); is_first = false) {
      if (!is_first && !take(',')) return false;
      if (!is_first && is_python_ && take(close)) break;
      if ((!is_first && !add(",")) || !read()) return false;
    }
    return add(is_object ? "}" : "]");
  }
  bool read_key() {
    if (read_string()) return true;
    const std::string_view digits = text_.substr(at_, text_.find_first_not_of("0123456789", at_) - at_);
    at_ += digits.size();
    return is_python_ && !digits.empty() && add(json_string(digits));
  }
  bool read_string() {
    const char quote = next();
    if (quote != '"' && !(quote == '\'' && is_python_)) return false;
    add("\"");
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const bool is_escaped = text_[at_] == '\\';
      if (is_escaped && ++at_ == text_.size()) return false;
      const bool is_escape = is_escaped && std::string_view("\\/bfnrtu").find(text_[at_]) != std::string_view::npos;
      if (is_escape || text_[at_] == '"') json_ += '\\';
      json_ += text_[at_];
    }
    add("\"");
    return take(quote);
  }
  // Reads a number, None, True, False, nan, or for Python another word, or a number in a type's name: np.float64(2.5).
  bool read_word(int depth) {
    constexpr std::pair<std::string_view, std::string_view> kLiterals[] = {
        {"None", "null"}, {"null", "null"}, {"True", "true"}, {"true", "true"}, {"False", "false"}, {"false", "false"}};
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || is_in_word(text_[at_])))
      ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    if (is_python_ && !word.empty() && take('(')) {
      if (!read_value(depth + 1)) return false;
      at_ = std::min(text_.find(')', at_), text_.size());
      return take(')');
    }
    const auto literal = std::ranges::find(kLiterals, word, &std::pair<std::string_view, std::string_view>::first);
    if (literal != std::end(kLiterals)) return add(literal->second);
    const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
    if (!is_python_ && digits.starts_with('0') && digits.size() > 1 &&
        std::isdigit(static_cast<unsigned char>(digits[1])))
      return false;
    if (word.starts_with('+')) word.remove_prefix(1);
    std::int64_t whole = 0;
    if (read_number(word, whole)) return add(std::to_string(whole));
    double number = 0;
    const bool is_plain = word.find_first_not_of("+-.0123456789eE") == word.npos;  // 1e-400 is 0
    if (!read_number(word, number) && is_plain && !is_python_) return add(word);
    if (!read_number(word, number)) return is_python_ && !word.empty() && add(json_string(word));
    const std::string text = json_number(number);
    if (!std::isfinite(number)) return add('"' + text + '"');
    return add(text) && (text.find_first_of(".e") != text.npos || add(".0"));  // whole, but beyond 64 bits
  }
  static bool is_in_word(char c) { return c == '_' || c == '.' || c == '-' || c == '+'; }
  char next() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (next() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  bool is_python_;
  std::size_t at_ = 0;
  std::string json_;
};

std::string why_not_json(std::string_view line, simdjson::error_code error) {
  if (error == simdjson::DEPTH_ERROR) return kNestingMessage;
  if (const std::string problem = encoding_problem(line); !problem.empty()) return problem;
  if (const std::size_t at = not_utf8_at(line); at != std::string_view::npos)
    return fmt::format("not UTF-8 from byte {} on (Latin-1?), which JSON must be", at + 1);
  const std::size_t first = line.find_first_not_of(" \t{[");
  if (first != std::string_view::npos && line[first] == '\'')
    return "not JSON: names are in single quotes, as Python prints them; json.dumps() writes JSON";
  return "not JSON, or cut off";
}

}  // namespace

simdjson::error_code JsonLines::parse_as_it_is(std::string_view text, JsonValue& value) {
  text = without_byte_order_mark(text);
  const std::size_t capacity = std::max(kMinCapacity, std::bit_ceil(text.size()));
  if (parser_.capacity() < capacity || (parser_.capacity() > kLargestKept && capacity <= kLargestKept)) {
    parser_ = decltype(parser_)();
    if (const auto error = parser_.doc.allocate(capacity)) return error;
    // The parser counts values as a level: a number in 64 lists has depth 65.
    if (const auto error = parser_.allocate(capacity, kMaxNesting + 1)) return error;
  }
  padded_.assign(text).append(simdjson::SIMDJSON_PADDING, ' ');
  return parser_.parse(padded_.data(), text.size(), false).get(value);
}

JsonFields JsonLines::parse(std::string_view line) {
  JsonValue value;
  auto error = parse_as_it_is(line, value);
  if (error && error != simdjson::DEPTH_ERROR)
    if (LooseReader reader(line, false); reader.read_value()) {
      const LooseJson loose = std::move(reader).json();
      if (trimmed(line.substr(loose.size), " \t\r\n").empty()) error = parse_as_it_is(loose.json, value);
    }
  if (error) throw Unreadable(why_not_json(line, error));
  simdjson::dom::object object;
  if (value.get(object)) throw Unreadable("not an object");
  return JsonFields(object);
}

std::int64_t read_objects(std::string_view text, const std::function<void(const JsonFields&)>& take,
                          const std::function<void(std::int64_t line, const std::string& reason)>& refuse) {
  JsonLines lines;
  const auto problem_of = [&](std::string_view object) -> std::string {
    try {
      take(lines.parse(object));
      return {};
    } catch (const Unreadable& unreadable) {
      return unreadable.what();
    }
  };
  const bool is_list = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size())).starts_with('[');
  std::int64_t number = 0;
  for (std::string_view unread = text; !unread.empty();) {
    ++number;
    const std::string_view line = is_list ? std::exchange(unread, {}) : take_until(unread, '\n');
    if (trimmed(line).empty()) continue;
    const std::string problem = problem_of(is_list ? "{\"responses\":" + std::string(line) + '}' : std::string(line));
    if (problem.empty()) continue;
    if (number == 1 && !is_list && problem_of(text).empty()) break;
    refuse(number, problem);
  }
  return number;
}

std::optional<LooseJson> python_dict(std::string_view text) {
  constexpr std::size_t kLongestDict = std::size_t{1} << 20;
  LooseReader reader(text.substr(0, kLongestDict), true);
  const bool begins = text.starts_with('{') || text.starts_with("[(");
  return begins && reader.read_value() ? std::optional(std::move(reader).json()) : std::nullopt;
}

}  // namespace moescope
