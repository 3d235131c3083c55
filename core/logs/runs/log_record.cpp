#include "core/logs/runs/log_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/files/text/words.h"
#include "core/logs/import.h"
#include "core/logs/tag_map.h"

namespace moescope {

const NamedValue* find_value(const LogRecord& record, std::string_view name) {
  const auto found = std::ranges::find_if(
      record.values, [&](const NamedValue& value) { return value.name == name && has_value(value); });
  return found == record.values.end() ? nullptr : &*found;
}

std::string value_text(const NamedValue& value) {
  constexpr std::size_t kLongestText = 40;
  if (value.is_list && value.text.empty()) return fmt::format("a list of {} numbers", value.numbers.size());
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
                          "micro_step", "microstep", "micro"});
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

ExpertBucket bucket_between(double from, double to, double count, bool last) {
  if (!(to >= from) || !(count >= 0)) throw Unreadable("histogram: limits do not rise");
  return {std::ceil(from), last ? std::floor(to) : std::ceil(to) - 1, count};
}

std::vector<double> counts_of(const std::vector<ExpertBucket>& buckets) {
  // Of a histogram of the loads themselves, which trainings log by mistake, the values are as many as the experts, and
  // read as numbers of experts they would leave nearly all experts without tokens.
  constexpr double kMinTokensOfAnExpert = 16;
  std::vector<double> counts;
  for (const auto& [lowest, highest, count] : buckets) {
    if (count == 0) continue;
    if (!(lowest == highest))
      throw Unreadable("histogram: a bucket of more than one expert, so that their loads are not known");
    if (!(highest >= 0 && highest < kMaxImportedExperts)) throw Unreadable("histogram: too many experts");
    const auto expert = static_cast<std::size_t>(highest);
    if (counts.size() <= expert) counts.resize(expert + 1);
    counts[expert] += count;
  }
  const double tokens = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (tokens < kMinTokensOfAnExpert * counts.size())
    throw Unreadable(
        fmt::format("histogram: of {} values up to {}: too few for numbers of experts; it seems to be of the loads, "
                    "and does not say which expert has which load. Log the loads as a list",
                    shortest(tokens), counts.size() - 1));
  return counts;
}

}  // namespace moescope
