#include "core/training/engine/change_log.h"

#include <algorithm>
#include <utility>

#include "core/config/config_field.h"

namespace moescope {

const PinnedChange& ChangeLog::add(LiveChange change, Marker marker) {
  changes_.push_back({++last_id_, PinnedChange::kNotYet, std::move(change), std::move(marker)});
  return changes_.back();
}

void ChangeLog::set_step(std::uint64_t id, std::int64_t step) {
  const auto found = std::ranges::find(changes_, id, &PinnedChange::id);
  if (found != changes_.end()) found->step = step;
}

std::vector<PinnedChange> ChangeLog::inherited(const Inheritance& inheritance) const {
  std::vector<PinnedChange> inherited;
  for (const PinnedChange& made : changes_) {
    if (made.change.run == inheritance.run && made.id > inheritance.after &&
        !inheritance.except.contains(made.change.setting))
      inherited.push_back(made);
  }
  return inherited;
}

std::uint64_t ChangeLog::last_before(std::int64_t step) const {
  const auto found = last_before_.find(step);
  return found == last_before_.end() ? 0 : found->second;
}

void ChangeLog::undo_after(std::int64_t step) {
  const std::uint64_t last = last_before(step);
  std::erase_if(changes_, [last](const PinnedChange& change) { return change.id > last; });
  forget_checkpoints_after(step);
}

}  // namespace moescope
