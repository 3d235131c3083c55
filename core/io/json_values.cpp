#include "core/io/json_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/io/nesting.h"
#include "core/io/text_encoding.h"

namespace moescope {

namespace {

using Json = nlohmann::json;

std::string with_quoted_non_numbers(std::string_view line) {
  std::string out;
  out.reserve(line.size() + 16);
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') in_string = !in_string;
    if (in_string && line[i] == '\\' && i + 1 < line.size()) out += line[i++];
    bool replaced = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (in_string || line.substr(i, word.size()) != word) continue;
      out.append("\"").append(word).append("\"");
      i += word.size() - 1;
      replaced = true;
      break;
    }
    if (!replaced) out += line[i];
  }
  return out;
}

// The first literal outside of strings that other languages use for a value but JSON does not have.
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

std::string why_not_json(std::string_view line) {
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

Json parse_json(std::string_view text) {
  constexpr std::size_t kLongestWhy = 300;  // the library repeats what it read last, however long
  if (const std::size_t at = json_too_deep_at(text); at != std::string_view::npos)
    throw BadJson(too_deep_text() + " at byte " + std::to_string(at + 1));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    std::string why = error.what();  // begins with the library's own number of the error, in brackets
    why.erase(0, std::min(why.find("] ") + 2, why.size()));
    if (why.size() > kLongestWhy) why = why.substr(0, kLongestWhy) + "...";
    throw BadJson(why);
  }
}

Json parse_json_line(std::string_view line) {
  if (json_too_deep_at(line) != std::string_view::npos) throw Unreadable(too_deep_text());
  const bool non_numbers =
      line.find("NaN") != std::string_view::npos || line.find("Infinity") != std::string_view::npos;
  Json json = non_numbers ? Json::parse(with_quoted_non_numbers(line), nullptr, false)
                          : Json::parse(line.begin(), line.end(), nullptr, false);
  if (json.is_discarded()) throw Unreadable(why_not_json(line));
  if (json.is_string() && non_numbers)
    throw Unreadable("holds " + json.get<std::string>() + " and nothing else, so no step");
  if (!json.is_object()) throw Unreadable("not an object");
  return json;
}

const Json* member(const Json& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = json.find(key);
    if (found != json.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

float to_float(const Json& value, const char* key) {
  if (value.is_null()) return kNoValue;
  if (value.is_number()) return static_cast<float>(value.get<double>());
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "NaN") return std::numeric_limits<float>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<float>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<float>::infinity();
  }
  throw Unreadable(std::string(key) + ": not a number");
}

std::int64_t to_count(const Json& value, const char* key, double limit) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= limit && number == std::floor(number))) {
    throw Unreadable(std::string(key) + ": not a whole number from 0 on");
  }
  return static_cast<std::int64_t>(number);
}

int to_index(const Json& value, const char* key, int lowest, int highest) {
  const double number = value.is_number() ? value.get<double>() : lowest - 1.0;
  if (!(number >= lowest && number <= highest && number == std::floor(number))) {
    throw Unreadable(std::string(key) + ": not a whole number from " + std::to_string(lowest) + " to " +
                     std::to_string(highest));
  }
  return static_cast<int>(number);
}

const Json& list_of(const Json& value, const char* key, std::size_t size, const char* of_what) {
  if (!value.is_array()) throw Unreadable(std::string(key) + ": not a list");
  if (size && value.size() != size) {
    throw Unreadable(std::string(key) + ": " + std::to_string(value.size()) + " " + of_what + ", not " +
                     std::to_string(size));
  }
  return value;
}

std::vector<std::uint32_t> to_counts(const Json& list, const char* key, std::size_t size, const char* of_what) {
  std::vector<std::uint32_t> counts;
  counts.reserve(size);
  for (const Json& value : list_of(list, key, size, of_what)) {
    counts.push_back(static_cast<std::uint32_t>(to_count(value, key, 4294967295.0)));
  }
  return counts;
}

std::vector<float> to_floats(const Json& list, const char* key, std::size_t size, const char* of_what) {
  std::vector<float> values;
  values.reserve(size);
  for (const Json& value : list_of(list, key, size, of_what)) values.push_back(to_float(value, key));
  return values;
}

}  // namespace moescope
