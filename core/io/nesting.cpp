#include "core/io/nesting.h"

#include <vector>

namespace moescope {

namespace {

// Behind the string that begins at `at` with `quote`, or at the end of a line that it does not end on.
std::size_t after_string(std::string_view text, std::size_t at, char quote, bool escapes) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == quote) return at + 1;
    if (text[at] == '\n' || text[at] == '\r') return at;
    if (escapes && text[at] == '\\') ++at;
  }
  return text.size();
}

// The same of one that begins with three quotes and may go over lines; two more quotes may belong to it at its end.
std::size_t after_long_string(std::string_view text, std::size_t at, char quote, bool escapes) {
  const std::string end(3, quote);
  for (at += 3; at < text.size(); ++at) {
    if (escapes && text[at] == '\\') {
      ++at;
    } else if (text.substr(at, 3) == end) {
      at += 3;
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    }
  }
  return text.size();
}

// State of a reader of TOML, as far as depth is concerned.
class TomlDepth {
 public:
  // Of a character outside of strings and comments.
  void take(char c) {
    switch (c) {
      case '[':
      case '{':
        return open(c);
      case ']':
      case '}':
        return close();
      case '.':
        if (in_header_) ++header_;
        if (!in_header_ && !level_.in_value) ++level_.dots;
        break;
      case '=':
        level_.in_value = true;
        break;
      case ',':
        level_.dots = 0;
        level_.in_value = level_.bracket == '[';
        break;
      case '\n':
        end_line();
        return;
      default:
        break;
    }
    if (c != ' ' && c != '\t' && c != '\r') line_begun_ = true;
  }
  void take_string() { line_begun_ = true; }
  int depth() const { return header_ + outer_dots_ + static_cast<int>(outer_.size()) + level_.dots; }

 private:
  struct Level {
    char bracket = 0;
    int dots = 0;  // of the key that is being read, or whose value is
    bool in_value = false;
  };
  void open(char c) {
    if (in_header_) return;
    if (outer_.empty() && !line_begun_) {
      in_header_ = true;
      header_ = 1;
      line_begun_ = true;
      return;
    }
    line_begun_ = true;
    outer_.push_back(level_);
    outer_dots_ += level_.dots;
    level_ = {c, 0, c == '['};
  }
  void close() {
    if (in_header_ || outer_.empty()) return;
    level_ = outer_.back();
    outer_dots_ -= level_.dots;
    outer_.pop_back();
  }
  void end_line() {
    if (!outer_.empty()) return;
    level_ = {};
    in_header_ = line_begun_ = false;
  }

  int header_ = 0;  // parts of the [header] that holds for what is being read
  bool in_header_ = false, line_begun_ = false;
  std::vector<Level> outer_;
  int outer_dots_ = 0;
  Level level_;
};

}  // namespace

std::size_t json_too_deep_at(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '[':
      case '{':
        if (++depth > kMaxNesting) return at;
        break;
      case ']':
      case '}':
        --depth;
        break;
      case '"':
        for (++at; at < text.size() && text[at] != '"'; ++at)
          if (text[at] == '\\') ++at;
        break;
      default:
        break;
    }
  }
  return std::string_view::npos;
}

std::size_t toml_too_deep_at(std::string_view text) {
  TomlDepth depth;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const bool is_long = text.substr(at, 3) == std::string(3, c);
      at = is_long ? after_long_string(text, at, c, c == '"') : after_string(text, at, c, c == '"');
      depth.take_string();
    } else if (c == '#') {
      at = text.find('\n', at);
    } else {
      depth.take(c);
      if (depth.depth() > kMaxNesting) return at;
      ++at;
    }
  }
  return std::string_view::npos;
}

std::string too_deep_text() {
  return "nested more than " + std::to_string(kMaxNesting) + " deep";
}

}  // namespace moescope
