#include "core/logs/lines/split_step.h"

#include <algorithm>
#include <array>

#include "core/files/text/json_text.h"
#include "core/logs/lines/printed_number.h"

namespace moescope {

namespace {

constexpr std::size_t kLongestSplitStep = std::size_t{64} << 20;
constexpr double kLatestSplitStep = 1e15;

std::optional<std::int64_t> step_in(const JsonFields& fields, LineNames& names) {
  const NamedLine named = names.read(fields, 0, false);
  const JsonValue* step = member(named.fields, {"step"});
  return step ? std::optional(to_step(*step, kLatestSplitStep)) : std::nullopt;
}

// Returns the members of the line's object, without its braces.
std::string_view members_of(std::string_view line) {
  const std::size_t begin = line.find('{'), end = line.rfind('}');
  return begin < end && end != std::string_view::npos ? line.substr(begin + 1, end - begin - 1) : std::string_view();
}

}  // namespace

bool SplitStep::is_other_step(const JsonFields& fields, LineNames& names) const {
  return step_in(fields, names) != step_ || text_.size() > kLongestSplitStep;
}

bool SplitStep::take(const JsonFields& fields, std::string_view line, std::int64_t number, LineNames& names) {
  if (fields.find("layer") || (empty() && !names.has_load_of_expert(fields))) return false;
  const auto step = step_in(fields, names);
  if (!step) return false;
  if (empty())
    step_ = *step, line_ = number, text_ = '{';
  else
    text_.back() = ',';
  text_ += members_of(line);
  text_ += '}';
  return true;
}

std::optional<std::string> named_value(const JsonFields& fields, const TagMap& tags) {
  constexpr std::array<const char*, 5> kNames = {"metric", "tag", "name", "key", "metric_name"};
  const JsonValue* value = fields.find("value");
  if (!value || !may_hold_number(*value)) return std::nullopt;
  for (const char* key : kNames) {
    const JsonValue* name = fields.find(key);
    if (!name || !name->is_string()) continue;
    const std::string text = to_text(*name, key);
    const auto found = tags.find(text);
    const bool may_be_other = std::string_view(key) == "name" || std::string_view(key) == "key";
    if (found ? !is_shown(found->rule->means) : may_be_other) continue;
    std::string json = '{' + json_string(text) + ':' + simdjson::minify(*value);
    for (const JsonFields::Field& field : fields)
      if (field.key != key && field.key != "value")
        json += ',' + json_string(field.key) + ':' + simdjson::minify(field.value);
    return json + '}';
  }
  return std::nullopt;
}

}  // namespace moescope
