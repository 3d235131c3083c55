#include "core/files/text/json_line.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "core/files/text/text_encoding.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

constexpr std::size_t kMinCapacity = std::size_t{64} << 10;
constexpr std::size_t kLargestKept = std::size_t{8} << 20;  // bytes of a line; the parser takes about 14 times as much

bool holds_non_numbers(std::string_view line) {
  return line.find("NaN") != std::string_view::npos || line.find("Infinity") != std::string_view::npos;
}

// Returns the position behind the string that `text` begins with.
std::size_t string_end(std::string_view text) {
  for (std::size_t at = 1; (at = text.find_first_of("\"\\", at)) != std::string_view::npos; at += 2)
    if (text[at] == '"') return at + 1;
  return text.size();
}

// Returns the line with the text outside of strings replaced: replace(out, text) appends the replacement.
template <class Replace>
std::string outside_of_strings(std::string_view line, Replace replace) {
  std::string out;
  out.reserve(line.size() + 64);
  while (!line.empty()) {
    const std::string_view text = line.substr(0, line.find('"'));
    replace(out, text);
    line.remove_prefix(text.size());
    const std::string_view string = line.substr(0, line.empty() ? 0 : string_end(line));
    out += string;
    line.remove_prefix(string.size());
  }
  return out;
}

void quote_non_numbers(std::string& out, std::string_view text) {
  std::size_t done = 0, nan = text.find("NaN"), infinity = text.find("Infinity");
  for (std::size_t at; (at = std::min(nan, infinity)) != std::string_view::npos;) {
    const std::size_t begin = at - (at == infinity && at > done && text[at - 1] == '-' ? 1 : 0);
    const std::size_t end = at + (at == nan ? 3 : 8);
    out.append(text, done, begin - done).append("\"").append(text, begin, end - begin).append("\"");
    done = end;
    (at == nan ? nan : infinity) = text.find(at == nan ? "NaN" : "Infinity", done);
  }
  out += text.substr(done);
}

bool is_beyond_64_bits(std::string_view whole) {
  std::uint64_t positive = 0;
  std::int64_t any = 0;
  const char* end = whole.data() + whole.size();
  const auto read =
      whole.front() == '-' ? std::from_chars(whole.data(), end, any) : std::from_chars(whole.data(), end, positive);
  return read.ec == std::errc::result_out_of_range && read.ptr == end;
}

void widen_large_numbers(std::string& out, std::string_view text) {
  constexpr std::string_view kNumberCharacters = "+-.0123456789Ee";
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find_first_of("-0123456789"), text.size());
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    const std::string_view number = text.substr(0, text.find_first_not_of(kNumberCharacters));
    out += number;
    if (!number.empty() && is_beyond_64_bits(number)) out += ".0";
    text.remove_prefix(number.size());
  }
}

// Returns the first literal outside of strings that other languages use for a value but JSON does not have.
std::string_view non_json_literal(std::string_view line) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (in_string && line[i] == '\\')
      ++i;
    else if (line[i] == '"')
      in_string = !in_string;
    if (in_string || i >= line.size() || !is_letter(line[i])) continue;
    std::size_t end = i;
    while (end < line.size() && is_letter(line[end])) ++end;
    for (const std::string_view word : {"nan", "NAN", "inf", "Inf", "INF", "infinity", "None", "True", "False"})
      if (line.substr(i, end - i) == word) return word;
    i = end - 1;
  }
  return {};
}

std::string why_not_json(std::string_view line, simdjson::error_code error) {
  if (error == simdjson::DEPTH_ERROR) return kNestingMessage;
  if (const std::string problem = encoding_problem(line); !problem.empty()) return problem;
  if (const std::size_t at = not_utf8_at(line); at != std::string_view::npos)
    return "not UTF-8 from byte " + std::to_string(at + 1) + " on (Latin-1?), which JSON must be";
  if (const std::string_view word = non_json_literal(line); !word.empty())
    return "not JSON: " + std::string(word) + " is not a JSON value; NaN, Infinity, null, true and false are allowed";
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
  const bool non_numbers = holds_non_numbers(line);
  const std::string quoted = non_numbers ? outside_of_strings(line, quote_non_numbers) : std::string();
  const std::string_view text = non_numbers ? quoted : line;
  JsonValue value;
  auto error = parse_as_it_is(text, value);
  if (error == simdjson::NUMBER_ERROR) error = parse_as_it_is(outside_of_strings(text, widen_large_numbers), value);
  if (error) throw Unreadable(why_not_json(line, error));
  if (value.is_string() && non_numbers)
    throw Unreadable("contains only " + std::string(value.get_string().value_unsafe()) + ", and no step");
  simdjson::dom::object object;
  if (value.get(object)) throw Unreadable("not an object");
  return JsonFields(object);
}

}  // namespace moescope
