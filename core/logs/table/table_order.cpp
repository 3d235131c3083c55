#include "core/logs/table/table_order.h"

namespace moescope {

namespace {

constexpr std::size_t kBytesOfASeries = 64;  // includes overhead of the map and the allocator
constexpr int kExpertBits = 16;

}  // namespace

void TableOrder::add(std::int64_t step, std::uint64_t group, std::uint64_t expert, std::int64_t line) {
  const auto [known, is_new] = last_.try_emplace(group << kExpertBits | expert, step);
  const bool is_new_group = is_new && groups_.insert(group).second;
  const bool row_falls = step < last_step_;
  falls_of_rows_ += row_falls;
  falls_to_new_series_ += row_falls && is_new;
  falls_to_new_groups_ += row_falls && is_new_group;
  last_step_ = step;
  if (is_new) return;
  const std::int64_t before = known->second;
  known->second = step;
  if (step > before) {
    ++rises_;
  } else if (step < before) {
    if (falls_++ == 0) first_fall_ = {step, line};
  } else if (repeats_++ == 0) {
    first_repeat_ = {step, line};
  }
}

TableOrder::Kind TableOrder::kind() const {
  if (falls_ > rises_) return Kind::newest_first;
  // If new groups or series begin where others end, the rows are sorted by group or series.
  const bool sorted = falls_to_new_groups_ > 0 || 2 * falls_to_new_series_ > last_.size();
  if (falls_ > 0) return sorted ? Kind::lost : Kind::as_written;
  return falls_of_rows_ > 0 ? Kind::by_step : Kind::as_written;
}

std::string TableOrder::going_back() const {
  return "line " + std::to_string(first_fall_.line) + ": goes back to step " + std::to_string(first_fall_.step) +
         " of the same layer and expert, but the rows are not in the order in which they were written, so that it is "
         "not known which rows were dropped then: remove those, or give the rows as they were written";
}

std::string TableOrder::repeated() const {
  return "line " + std::to_string(first_repeat_.line) + ": the same step, layer and expert as in a row before (step " +
         std::to_string(first_repeat_.step) + ")";
}

std::size_t TableOrder::bytes() const {
  return (last_.size() + groups_.size()) * kBytesOfASeries;
}

}  // namespace moescope
