// What the readers of logs give, whatever the form of the file: the named values of a line, a row or an event. LogRuns
// (log_runs.h) does everything else: meanings of names, steps and restarts, ranks, layers and experts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame/frame.h"
#include "core/logs/account_book.h"

namespace moescope {

struct NamedValue {
  std::string_view name;        // as in the log; names of nested objects are joined with dots
  std::vector<double> numbers;  // one number, or those of the list; kNoValue: null in a list
  bool is_list = false;
  std::vector<std::size_t> rows;  // sizes of the lists, if it is a list of lists
  std::string_view text;          // the value, if it is a text or no number
  bool is_text = false;           // the value is a text, which may contain a number
  int layer = -1, expert = -1;    // if they stand beside the name; -1: they do not
  bool leaves_out_zeros = false;  // of a list by expert: experts without a value (kNoValue) have no tokens
  bool has_all_experts = false;   // of such a list: no expert follows its last one
  bool in_percent = false;        // a list of loads that are shares, whatever its name says
  std::string_view problem;       // why the value could not be taken apart; empty: it could
  const char* means = nullptr;    // name that has this meaning, if the form of the file and not the name gives it
  bool is_own = false;            // a value of this program's own lines, which is in LogRecord::own
};

// What a comma in a text may be. Of a loss "3,5" or "2,345" it may be a decimal point; a count "2,345" is 2345; loads
// "12,14,9" are a list.
enum class Commas { may_be_decimal, between_groups, between_entries };

// Of a text that is not for training, only the loss of a validation counts.
enum class MeasuredOn { training, validation, test };

struct LogRecord {
  std::int64_t place = 0;                  // line or record, counted from 1
  std::optional<std::int64_t> step;        // if the form gives it; else one of the values is the step
  double wall_s = 0, epoch = -1;           // epoch: if the form gives it; else one of the values is the epoch
  int layer = -1;                          // of all values, if the record is of one layer
  bool is_part = false;                    // further records of its step may follow
  bool is_drawn_again = false;             // a progress bar, which is drawn several times at a step
  bool is_row = false;                     // of a table, in which NaN may stand for an empty cell
  MeasuredOn text = MeasuredOn::training;  // if the form tells; else one of the values does
  std::vector<NamedValue> values;
  std::optional<TelemetryFrame> own_frame;  // values of this program's own lines (jsonl.cpp)
  std::size_t own_bytes = 0;                // length of its line
  bool has_own_rows = false;                // `own_frame` has rows
  AccountBook::Name own_loads;              // name of the loads in its routers
  std::vector<Marker> markers;              // step -1: the step of the record
  std::size_t loads_of_dicts = 0;           // entries of the lists that JSON objects by expert became
  std::string problem;                      // why a part of the record could not be read; empty: all of it could
  std::deque<std::string> texts;            // names and texts that the log does not have as they are

  std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
  NamedValue& add(std::string_view name) {
    values.emplace_back().name = name;
    return values.back();
  }
  void add(std::string_view name, double number) { add(name).numbers = {number}; }
  void add_text(std::string_view name, std::string_view text) {
    NamedValue& value = add(name);
    value.text = text;
    value.is_text = true;
  }
};

// Fields of JSON objects with the name of the value beside it: {"metric": "loss", "value": 2.5}.
inline constexpr const char* kKeysOfNames[] = {"metric", "tag", "metric_name", "metricName", "name", "key"};

inline bool has_value(const NamedValue& value) {  // false: null
  return value.is_list || !value.numbers.empty() || !value.text.empty();
}
inline bool is_number(const NamedValue& value) {
  return !value.is_list && value.numbers.size() == 1;
}
// Returns the value as error messages name it.
std::string value_text(const NamedValue& value);
const NamedValue* find_value(const LogRecord& record, std::string_view name);  // nullptr: absent, or null

inline constexpr std::int64_t kLastStep = 1'000'000'000'000'000;
// Returns nullopt if the value is not the number of a step, such as -1 before the first step. "5/100" is step 5.
std::optional<std::int64_t> step_number(const NamedValue& value);
bool is_part_of_step(std::string_view name);  // name of a rank or microbatch, whose values are a part of the step's

// True for the last line of Hugging Face's Trainer, which has totals and means of the whole training.
bool is_closing(const LogRecord& record);

// Kind of text on which the values of a record were measured: validation for {"split": "val", "step": 7, "loss": 2.5}.
MeasuredOn measured_on(const LogRecord& record);

// Loads of experts as a histogram of expert numbers, in which every bucket must hold one expert.
// Experts `lowest` to `highest`, both inclusive.
struct ExpertBucket {
  double lowest = 0, highest = 0, count = 0;
};

// Returns the bucket with the whole numbers in [from, to), or in [from, to] if it is the last bucket. Throws Unreadable
// if the limits do not rise or the count is negative or NaN.
ExpertBucket bucket_between(double from, double to, double count, bool last);

// Returns the count of each expert. Throws Unreadable if a bucket is wider than one expert, or if there are too many
// experts.
std::vector<double> counts_of(const std::vector<ExpertBucket>& buckets);

}  // namespace moescope
