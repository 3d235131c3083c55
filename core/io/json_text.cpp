#include "core/io/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "core/io/nesting.h"

namespace moescope {

nlohmann::json parse_json(std::string_view text) {
  constexpr std::size_t kLongestWhy = 300;  // the library's message repeats the last text, which may be long
  using Event = nlohmann::json::parse_event_t;
  const auto check_depth = [](int depth, Event event, const nlohmann::json&) {
    if (depth >= kMaxNesting && (event == Event::object_start || event == Event::array_start)) throw BadJson(kTooDeep);
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), check_depth);
  } catch (const nlohmann::json::exception& error) {
    std::string why = error.what();  // begins with the library's error number in brackets
    why.erase(0, std::min(why.find("] ") + 2, why.size()));
    if (why.size() > kLongestWhy) why = why.substr(0, kLongestWhy) + "...";
    throw BadJson(why);
  }
}

nlohmann::json parse_json(std::string_view text, const std::string& path) {
  try {
    return parse_json(text);
  } catch (const BadJson& problem) {
    throw std::runtime_error(path + ": " + problem.what());
  }
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace moescope
