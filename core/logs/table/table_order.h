// Determines the order of the rows of a table: as a training wrote them, or sorted in another way, such as by layer and
// expert.
//
// A series has at most one row per step: the rows of one expert of one layer. If no series ever goes back, the rows are
// sorted by step. If series go back more often than forward, the newest row is first. Otherwise a training went back to
// an earlier step (restart_rule.h), provided that the rows are as written; if they are also sorted by layer or rank,
// the order of writing is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace moescope {

class TableOrder {
 public:
  enum class Kind { as_written, by_step, newest_first, lost };

  // `group`: layer, combined with the rank if there are several; every step has each group.
  void add(std::int64_t step, std::uint64_t group, std::uint64_t expert, std::int64_t line);
  Kind kind() const;
  bool repeats() const { return repeats_ > 0; }  // a series has a step twice in succession
  // "line 7 goes back to step 8 of the same layer and expert, ...", for `lost` and for repeats.
  std::string going_back() const;
  std::string repeated() const;
  bool goes_back() const { return falls_ > 0 && rises_ > 0; }
  std::size_t bytes() const;  // memory of this object

 private:
  struct Row {
    std::int64_t step = 0, line = 0;
  };
  std::unordered_map<std::uint64_t, std::int64_t> last_;  // last step of each series
  std::unordered_set<std::uint64_t> groups_;
  Row first_fall_, first_repeat_;
  std::int64_t last_step_ = -1;
  std::size_t rises_ = 0, falls_ = 0, repeats_ = 0;
  std::size_t falls_of_rows_ = 0, falls_to_new_groups_ = 0, falls_to_new_series_ = 0;
};

}  // namespace moescope
