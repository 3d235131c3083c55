#include "core/model/tokenizer/json_place.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

std::string joined(const std::string& place, const char* key) {
  return place.empty() ? key : place + "." + key;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string shown = printable(text.substr(0, kLongest));
  if (text.size() > kLongest) shown += "...";
  return "'" + shown + "'";
}

void JsonPlace::fail(const std::string& reason) const {
  throw Unreadable((key_.empty() ? "" : key_ + ": ") + reason);
}

std::optional<JsonPlace> JsonPlace::find(const char* key) const {
  JsonValue value;
  if (object().at_key(key).get(value) || value.is_null()) return std::nullopt;
  return JsonPlace(value, joined(key_, key));
}

JsonPlace JsonPlace::at(const char* key) const {
  if (auto found = find(key)) return *std::move(found);
  throw Unreadable(joined(key_, key) + ": is missing");
}

std::vector<JsonPlace> JsonPlace::items(std::size_t max_items) const {
  std::vector<JsonPlace> items;
  for (const JsonValue value : list()) {
    if (items.size() == max_items) fail(fmt::format("has more than {} entries", max_items));
    items.emplace_back(value, fmt::format("{}[{}]", key_, items.size()));
  }
  return items;
}

bool JsonPlace::flag(const char* key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->flag() : otherwise;
}

std::int64_t JsonPlace::whole(std::int64_t lowest, std::int64_t highest) const {
  std::int64_t whole = 0;
  if (value_.get(whole) || whole < lowest || whole > highest)
    fail(fmt::format("is not a whole number from {} to {}", lowest, highest));
  return whole;
}

std::size_t JsonPlace::one_of(const std::vector<const char*>& names) const {
  const auto found = std::ranges::find(names, text());
  if (found == names.end()) fail("is " + in_quotes(text()) + "; supported are " + moescope::joined(names, ", "));
  return found - names.begin();
}

}  // namespace moescope
