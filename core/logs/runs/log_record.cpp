#include "core/logs/runs/log_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/files/text/words.h"
#include "core/logs/tag_map.h"
#include "core/numerics/index.h"

namespace moescope {

const NamedValue* find_value(const LogRecord& record, std::string_view name) {
  const auto found = std::ranges::find_if(
      record.values, [&](const NamedValue& value) { return value.name == name && has_value(value); });
  return found == record.values.end() ? nullptr : &*found;
}

std::string value_text(const NamedValue& value) {
  constexpr std::size_t kLongestText = 40;
  if (value.is_list) return fmt::format("a list of {} numbers", value.numbers.size());
  if (value.numbers.size() == 1 && value.text.empty()) return shortest(value.numbers[0]);
  const std::string text(value.text.substr(0, kLongestText));
  return value.is_text ? '"' + text + '"' : text;
}

std::optional<std::int64_t> step_number(const NamedValue& value) {
  std::string_view unread = value.text;
  const std::string_view before = take_until(unread, '/');
  std::int64_t step = 0, all = 0;
  if (value.is_text && read_number(before, step) && read_number(unread, all) && step >= 0 && all >= 0)
    return step <= kLastStep ? std::optional(step) : std::nullopt;
  if (value.is_list || value.numbers.size() != 1) return std::nullopt;
  const double number = value.numbers[0];
  if (!(number >= 0 && number <= kLastStep && number == std::floor(number))) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

bool is_part_of_step(std::string_view name) {
  return is_one_of(name, {"rank", "global_rank", "dp_rank", "ep_rank", "process_index", "microbatch", "micro_batch",
                          "micro_step", "microstep"});
}

int part_of(const LogRecord& record) {
  for (const NamedValue& value : record.values)
    if (is_number(value) && value.numbers[0] >= 0 && value.numbers[0] <= kLastStep && is_part_of_step(value.name))
      return to_int(static_cast<std::int64_t>(value.numbers[0]) & INT32_MAX);
  return -1;
}

bool is_closing(const LogRecord& record) {
  const auto has_any = [&](const char* a, const char* b) { return find_value(record, a) || find_value(record, b); };
  return has_any("train_runtime", "train/train_runtime") && !has_any("loss", "train/loss");
}

MeasuredOn measured_on(const LogRecord& record) {
  if (record.text != MeasuredOn::training) return record.text;
  for (const NamedValue& value : record.values) {
    if (!value.is_text || !is_one_of(value.name, {"split", "phase", "mode", "stage", "type", "event", "kind", "context",
                                                  "metric.context", "runContext", "subset"}))
      continue;
    const std::string word = spelled_alike(trimmed(value.text.substr(value.text.rfind(':') + 1), " \"'{}"));
    if (word == "test" || word == "testing") return MeasuredOn::test;
    if (is_one_of(word, {"val", "valid", "validation", "eval", "evaluation", "validating", "validate", "dev"}))
      return MeasuredOn::validation;
  }
  return MeasuredOn::training;
}

}  // namespace moescope
