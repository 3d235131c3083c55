#include "core/files/text/json_text.h"

#include <charconv>
#include <cmath>

#include "core/files/unreadable.h"

namespace moescope {

std::string without_json_error_numbers(std::string text) {
  constexpr std::string_view kBegin = "[json.exception.", kEnd = "] ";
  for (std::size_t begin; (begin = text.find(kBegin)) != std::string::npos;) {
    const std::size_t end = text.find(kEnd, begin);
    text.erase(begin, end == std::string::npos ? kBegin.size() : end + kEnd.size() - begin);
  }
  return text;
}

nlohmann::json parse_json(std::string_view text) {
  constexpr std::size_t kLongestReason = 300;  // the library's message repeats the last text, which may be long
  using Event = nlohmann::json::parse_event_t;
  const auto check_depth = [](int depth, Event event, const nlohmann::json&) {
    if (depth >= kMaxNesting && (event == Event::object_start || event == Event::array_start))
      throw BadJson(kNestingMessage);
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), check_depth);
  } catch (const nlohmann::json::exception& error) {
    std::string reason = without_json_error_numbers(error.what());
    if (reason.size() > kLongestReason) reason = reason.substr(0, kLongestReason) + "...";
    throw BadJson(reason);
  }
}

nlohmann::json parse_json(std::string_view text, const std::string& path) {
  try {
    return parse_json(text);
  } catch (const BadJson& problem) {
    refuse(path, problem.what());
  }
}

std::string json_text(const nlohmann::json& json) {
  return json.is_null() ? std::string() : json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
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
