#include "core/training/routing_archive.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/recording/history/thinning.h"

namespace moescope {
namespace {

std::size_t bytes_of(const std::vector<KeptRouting>& routing) {
  std::size_t bytes = 0;
  for (const KeptRouting& layer : routing)
    bytes += sizeof layer + layer.ids_TK.size() * sizeof(std::uint16_t) + layer.margin_T.size() * sizeof(float);
  return bytes;
}

}  // namespace

void RoutingArchive::put(std::int64_t step, std::vector<KeptRouting> routing) {
  while (!entries_.empty() && entries_.back().step >= step) {
    bytes_ -= bytes_of(entries_.back().routing);
    entries_.pop_back();
  }
  bytes_ += bytes_of(routing);
  entries_.push_back({step, next_ordinal_++, std::move(routing)});
  while (bytes_ > budget_ && entries_.size() > 2) thin();
}

void RoutingArchive::thin() {
  const std::size_t half_count = entries_.size() / 2;
  const int level = finest_level(std::span<const Entry>(entries_).first(half_count));
  auto end = entries_.begin() + static_cast<std::ptrdiff_t>(half_count);
  // If only the very first entry is left in the older half, drops the oldest of the newer half.
  auto kept_end = level < 0 ? end : std::stable_partition(entries_.begin(), end, [level](const Entry& entry) {
    return !is_dropped(entry.ordinal, level);
  });
  if (kept_end == end) ++end;
  for (auto dropped = kept_end; dropped != end; ++dropped) bytes_ -= bytes_of(dropped->routing);
  entries_.erase(kept_end, end);
}

const std::vector<KeptRouting>* RoutingArchive::find(std::int64_t step) const {
  const auto entry =
      std::lower_bound(entries_.begin(), entries_.end(), step,
                       [](const Entry& e, std::int64_t searched_step) { return e.step < searched_step; });
  return entry == entries_.end() || entry->step != step ? nullptr : &entry->routing;
}

}  // namespace moescope
