// Counts the values of every name of a log while it is read, for the account of what was read (account.h), and finds
// the names whose values look like loads of experts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/files/text/name_map.h"
#include "core/logs/account.h"
#include "core/logs/tag_map.h"

namespace moescope {

// The name without its numbers: "blk{layer}.e{expert}.frac" for "blk3.e41.frac". The letters before a number show what
// it counts; {n}: not known.
std::string name_pattern(std::string_view name);

// Values of the names that differ only in their numbers.
class NameCounts {
 public:
  NameCounts() {
    row_.lowest = std::numeric_limits<double>::infinity();
    row_.highest = -row_.lowest;
  }
  void take(std::int64_t step, double value) {
    count(step, 1);
    row_.last = value;
    zeros_ += value == 0;
    minus_ones_ += value == -1;
    row_.lowest = value < row_.lowest ? value : row_.lowest;
    row_.highest = value > row_.highest && value <= std::numeric_limits<double>::max() ? value : row_.highest;
  }
  const std::string& name() const { return row_.first; }  // the first name
  // Takes the values of a list of a known name in one pass over them; for std::uint32_t and double.
  template <class Number>
  void take_list(std::int64_t step, std::span<const Number> list);

 private:
  friend class AccountBook;
  void count(std::int64_t step, std::int64_t values) {
    row_.values += values;
    row_.last_step = std::max<std::int64_t>(step, -1);
    if (row_.first_step < 0) row_.first_step = row_.last_step;
  }
  std::string question() const;
  std::string name_or_pattern() const { return row_.names > 1 ? pattern_ : row_.first; }
  AccountRow row_;  // with names as they are in the log; its range begins as that of no number
  std::string pattern_, asked_meaning_, question_;
  const TagRule* rule_ = nullptr;
  std::int64_t zeros_ = 0, minus_ones_ = 0;
  // Of names that may be loads: sums over experts by series and step, of the first steps only.
  struct Sum {
    double sum = 0;
    std::int64_t values = 0;
    bool is_whole = true, is_negative = false;
    void add(double value) {
      sum += value;
      ++values;
      is_whole = is_whole && value == std::floor(value);
      is_negative = is_negative || value < 0;
    }
  };
  std::map<std::pair<std::int32_t, std::int64_t>, Sum> sums_;
  int sampled_steps_ = 0;
  std::int64_t sampled_step_ = -1;
};

class AccountBook {
 public:
  // A name, and the series of its values over the experts.
  struct Name {
    NameCounts* counts = nullptr;
    std::int32_t series = -1;
  };
  // `rule`: nullptr if no rule knows the name; must live as long as the book. `place`: line of the first value, 0:
  // none. `meaning`: what the name is, for the user, if the form of the file and no rule says so: "Layer".
  Name add(std::string_view name, const TagRule* rule, std::int64_t place, const char* meaning = "");
  // Values of a name. For names without a rule, also looks for loads. `step`: a negative number of the record if its
  // step is not known.
  static void take(const Name& name, std::int64_t step, double value);
  static void take(const Name& name, std::int64_t step, std::span<const double> list);
  static void take_text(const Name& name, std::int64_t step, std::string_view text);  // a value that is no number
  // Notes why the values of a name are not shown; the first reason counts.
  static void leave_out(const Name& name, std::string reason);
  // Asks whether the name has this meaning, a value of `means` in a mapping file.
  static void ask(const Name& name, const char* means, std::string question);
  static void show(const Name& name, bool is_shown) { name.counts->row_.is_shown = is_shown; }

  bool are_steps_numbered = false;  // no name is known as the step: the records are numbered
  // `unit`: "line", "record": what a place counts.
  ImportAccount account(const char* unit) const;
  // Names with values that are not shown, other than those that a rule ignores; `only_unknown`: without a rule.
  std::set<std::string> not_shown(bool only_unknown) const;

 private:
  AccountRow row(const NameCounts& counts, const char* unit) const;
  static void judge_shape(const NameCounts& counts, AccountRow& row);

  std::deque<NameCounts> rows_;
  std::unordered_map<std::string, NameCounts*> by_pattern_;
  NameMap<Name> names_;
  std::unordered_map<std::string, std::int32_t> series_;
};

}  // namespace moescope
