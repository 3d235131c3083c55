#include "core/io/json_text.h"

#include <algorithm>
#include <string>

#include "core/io/nesting.h"

namespace moescope {

nlohmann::json parse_json(std::string_view text) {
  constexpr std::size_t kLongestWhy = 300;  // the library repeats what it read last, however long
  if (const std::size_t at = json_too_deep_at(text); at != std::string_view::npos)
    throw BadJson(too_deep_text() + " at byte " + std::to_string(at + 1));
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    std::string why = error.what();  // begins with the library's own number of the error, in brackets
    why.erase(0, std::min(why.find("] ") + 2, why.size()));
    if (why.size() > kLongestWhy) why = why.substr(0, kLongestWhy) + "...";
    throw BadJson(why);
  }
}

}  // namespace moescope
